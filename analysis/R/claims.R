# Claims are data (report/claims/*.yaml): a kind with parameters gives the measured value, a
# comparison gives the verdict.
#
# `where` selects cells by block and axes, `metric` and `statistic` (mean unless stated) what is
# looked at in them. `against` replaces some of the axes of `where` to give the cell that each one
# is compared with.

# The rows of a study's summary that a claim speaks of, statistics over replicates.
select_cells <- function(summary, claim, replaced = list()) {
  wanted <- utils::modifyList(as.list(claim$where), as.list(replaced))
  unknown <- setdiff(names(wanted), names(summary))
  if (length(unknown) > 0) {
    stop("claim ", claim$id, ": axes must be columns of the summary, found ", toString(unknown))
  }
  found <- dplyr::filter(
    summary, statistic_over == "replicates", metric == metric_of(claim)
  )
  for (axis in names(wanted)) {
    found <- found[found[[axis]] %in% wanted[[axis]], ]
  }
  found$value <- found[[statistic_of(claim)]]
  found
}

metric_of <- function(claim) if (is.null(claim$metric)) "goodput_mbit" else claim$metric

statistic_of <- function(claim) if (is.null(claim$statistic)) "mean" else claim$statistic

# The value of the only cell that is selected; NA where none or several are.
only_value <- function(cells) if (nrow(cells) == 1) cells$value else NA_real_

# Each selected cell's value over that of the cell it is compared with. A claim whose `against`
# leaves a cell without its counterpart has not been measured whole.
compared <- function(summary, claim) {
  cells <- select_cells(summary, claim)
  base <- select_cells(summary, claim, claim$against)
  shared <- setdiff(condition_columns, names(claim$against))
  pairs <- dplyr::left_join(
    cells, dplyr::select(base, dplyr::all_of(shared), base = value),
    by = shared
  )
  pairs$value / pairs$base
}

all_or_none <- function(values, pick) {
  if (length(values) == 0 || anyNA(values)) NA_real_ else pick(values)
}

claim_kinds <- list(
  value = function(data, claim) only_value(select_cells(data$summary, claim)),
  largest = function(data, claim) all_or_none(select_cells(data$summary, claim)$value, max),
  smallest = function(data, claim) all_or_none(select_cells(data$summary, claim)$value, min),
  # The value farthest from one, as a ratio of at least one.
  largest_factor = function(data, claim) {
    all_or_none(select_cells(data$summary, claim)$value, function(x) max(pmax(x, 1 / x)))
  },
  change_percent = function(data, claim) {
    all_or_none(100 * (compared(data$summary, claim) - 1), function(x) {
      if (length(x) == 1) x else NA_real_
    })
  },
  smallest_ratio = function(data, claim) all_or_none(compared(data$summary, claim), min),
  largest_ratio = function(data, claim) all_or_none(compared(data$summary, claim), max),
  # The only selected cell's value over the largest of the cells that `others` selects.
  value_over_largest = function(data, claim) {
    rivals <- claim
    rivals$where <- claim$others
    largest <- all_or_none(select_cells(data$summary, rivals)$value, max)
    only_value(select_cells(data$summary, claim)) / largest
  },
  # The largest step upwards along the axis `along` that the data can tell from none: from the
  # upper end of one mean's interval to the lower end of the next one's, in percent.
  largest_certain_rise_percent = function(data, claim) {
    curve <- select_cells(data$summary, claim)
    curve <- curve[order(curve[[claim$along]]), ]
    if (nrow(curve) < 2) {
      return(NA_real_)
    }
    max(100 * (curve$mean_low[-1] / utils::head(curve$mean_high, -1) - 1))
  },
  # How many cells of a backend's block differ from the virtual backend's by more than `margin`
  # with certainty: the whole interval of the ratio does.
  certainly_different_cells = function(data, claim) {
    found <- summarise_backend_ratios(backend_ratios(data$replicates)) |>
      dplyr::filter(block == claim$where$block, !is.na(low))
    if (nrow(found) == 0) {
      return(NA_real_)
    }
    sum(found$low > 1 + claim$margin | found$high < 1 - claim$margin)
  },
  # How far the losses of any cell are from the binomial distribution, in standard errors.
  largest_loss_z = function(data, claim) all_or_none(abs(pooled_loss(data$replicates)$z), max)
)

# Exactly one comparison per claim: at_most, at_least, or within (published value plus or minus).
holds <- function(measured, claim) {
  if (!is.null(claim$at_most)) {
    return(measured <= claim$at_most)
  }
  if (!is.null(claim$at_least)) {
    return(measured >= claim$at_least)
  }
  abs(measured - claim$published) <= claim$within
}

tolerance_text <- function(claim) {
  if (!is.null(claim$at_most)) {
    return(paste("at most", claim$at_most))
  }
  if (!is.null(claim$at_least)) {
    return(paste("at least", claim$at_least))
  }
  paste("within", claim$within)
}

# One row: what was claimed, what was measured, and whether it holds.
#
# `data` has the study's `summary` and `replicates`.
evaluate_claim <- function(claim, data, study) {
  kind <- claim_kinds[[claim$kind]]
  if (is.null(kind)) {
    stop(
      "claim ", claim$id, ": kind must be one of ", toString(names(claim_kinds)), ", found ",
      claim$kind
    )
  }
  measured <- kind(data, claim)
  verdict <- if (is.na(measured)) {
    "not measured"
  } else if (holds(measured, claim)) {
    "holds"
  } else {
    "does not hold"
  }
  # Not tibble(), in which `claim` would be the new column from there on.
  tibble::as_tibble(list(
    study = study,
    claim = claim$id,
    sentence = claim$sentence,
    source = claim$source,
    published = if (is.null(claim$published)) NA_real_ else claim$published,
    measured = measured,
    tolerance = tolerance_text(claim),
    verdict = verdict
  ))
}
