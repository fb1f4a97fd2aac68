# Claims are data (report/claims/*.yaml): a kind with parameters gives the measured value, a
# comparison gives the verdict.
#
# `where` selects cells by block and axes, `metric` and `statistic` (mean unless stated) what is
# looked at in them. `against` replaces some of the axes of `where` to give the cell that each one
# is compared with.

# Everything that a claim looks at is looked up in the table of the campaign's cells. A claim of
# which a single cell has no number is not judged.

# The cells that a claim selects, each with its value; NA where it has none.
select_cells <- function(data, claim, replaced = list()) {
  wanted <- utils::modifyList(as.list(claim$where), as.list(replaced))
  unknown <- setdiff(names(wanted), names(data$cells))
  if (length(unknown) > 0) {
    stop("claim ", claim$id, ": axes must be columns of the cells, found ", toString(unknown))
  }
  found <- rows_of(data$cells[!is.na(data$cells$cell), ], wanted)
  numbers <- numbers_of(data, claim)
  # Only losses can be compared with the configured ones.
  if (claim$kind == "largest_loss_z") {
    found <- found[found$loss_percent > 0, ]
  }
  of_cells <- numbers[match(found$cell, numbers$cell), setdiff(names(numbers), "cell")]
  dplyr::bind_cols(found, of_cells)
}

rows_of <- function(rows, wanted) {
  for (axis in names(wanted)) {
    rows <- rows[rows[[axis]] %in% wanted[[axis]], ]
  }
  rows
}

# Per cell the number that a claim looks at.
numbers_of <- function(data, claim) {
  if (claim$kind == "largest_loss_z") {
    return(dplyr::transmute(pooled_loss(data$replicates), cell, value = z))
  }
  rows <- data$summary$statistic_over == "replicates" & data$summary$metric == metric_of(claim)
  found <- data$summary[rows, c("cell", statistic_of(claim), "mean_low", "mean_high")]
  names(found)[2] <- "value"
  found
}

metric_of <- function(claim) {
  if (is.null(claim[["metric"]])) "goodput_mbit" else claim[["metric"]]
}

statistic_of <- function(claim) {
  if (is.null(claim[["statistic"]])) "mean" else claim[["statistic"]]
}

# All cells that a claim looks at: those that it selects, those that they are compared with, and
# their rivals.
cells_of <- function(data, claim) {
  sets <- list(select_cells(data, claim))
  if (!is.null(claim$against)) {
    sets <- c(sets, list(select_cells(data, claim, claim$against)))
  }
  if (!is.null(claim$others)) {
    sets <- c(sets, list(select_cells(data, rivals_of(claim))))
  }
  sets
}

rivals_of <- function(claim) {
  claim$where <- claim$others
  claim
}

# Each selected cell's value over that of the cell it is compared with.
compared <- function(data, claim) {
  cells <- select_cells(data, claim)
  base <- select_cells(data, claim, claim$against)
  shared <- setdiff(c("block", condition_columns), names(claim$against))
  pairs <- dplyr::left_join(
    cells, dplyr::select(base, dplyr::all_of(shared), base = value),
    by = shared
  )
  pairs$value / pairs$base
}

# How a claim's cells become one number. Each has its value: `why_not_measured` has seen to that.
claim_kinds <- list(
  value = function(data, claim) only(select_cells(data, claim)$value, claim),
  largest = function(data, claim) max(select_cells(data, claim)$value),
  smallest = function(data, claim) min(select_cells(data, claim)$value),
  # The value farthest from one, as a ratio of at least one.
  largest_factor = function(data, claim) {
    values <- select_cells(data, claim)$value
    max(pmax(values, 1 / values))
  },
  change_percent = function(data, claim) 100 * (only(compared(data, claim), claim) - 1),
  smallest_ratio = function(data, claim) min(compared(data, claim)),
  largest_ratio = function(data, claim) max(compared(data, claim)),
  # The only selected cell's value over the largest of the cells that `others` selects.
  value_over_largest = function(data, claim) {
    only(select_cells(data, claim)$value, claim) / max(select_cells(data, rivals_of(claim))$value)
  },
  # The largest step upwards along the axis `along` that the data can tell from none: from the
  # upper end of one mean's interval to the lower end of the next one's, in percent.
  largest_certain_rise_percent = function(data, claim) {
    curve <- select_cells(data, claim)
    curve <- curve[order(curve[[claim$along]]), ]
    max(100 * (curve$mean_low[-1] / utils::head(curve$mean_high, -1) - 1))
  },
  # How many cells differ from their counterpart by more than `margin` with certainty: the whole
  # interval of the ratio does.
  certainly_different_cells = function(data, claim) {
    found <- summarise_backend_ratios(backend_ratios(data$replicates)) |>
      rows_of(claim$where)
    if (nrow(found) < nrow(rows_of(data$cells, claim$where))) {
      return(NA_real_)
    }
    sum(found$low > 1 + claim$margin | found$high < 1 - claim$margin)
  },
  # How far the losses of any cell are from the binomial distribution, in standard errors.
  largest_loss_z = function(data, claim) max(abs(select_cells(data, claim)$value))
)

only <- function(values, claim) {
  if (length(values) != 1) {
    stop("claim ", claim$id, ": must select one cell, found ", length(values))
  }
  values
}

# Why a claim cannot be judged; empty where it can.
why_not_measured <- function(data, claim) {
  for (cells in cells_of(data, claim)) {
    if (nrow(cells) == 0) {
      return("no cell of this campaign is meant")
    }
    absent <- cells[is.na(cells$value), ]
    if (nrow(absent) > 0) {
      invalid <- sum(absent$n_valid == 0 & absent$n_replicates > 0)
      return(paste0(
        if (nrow(absent) == 1) "cell " else "cells ", enumerate(absent$cell, 3), " without a ",
        metric_of(claim), if (invalid > 0) ", no valid replicate"
      ))
    }
  }
  ""
}

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
# `data` has the study's `cells`, `summary` and `replicates`.
evaluate_claim <- function(claim, data, study) {
  kind <- claim_kinds[[claim$kind]]
  if (is.null(kind)) {
    stop(
      "claim ", claim$id, ": kind must be one of ", toString(names(claim_kinds)), ", found ",
      claim$kind
    )
  }
  absent <- why_not_measured(data, claim)
  measured <- if (absent == "") kind(data, claim) else NA_real_
  if (absent == "" && is.na(measured)) {
    absent <- "too few replicates"
  }
  verdict <- if (absent != "") {
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
    published = if (is.null(claim$published)) NA_real_ else as.numeric(claim$published),
    measured = measured,
    tolerance = tolerance_text(claim),
    verdict = verdict,
    absent = absent
  ))
}
