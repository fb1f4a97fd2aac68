# Numbers of claims. Claims are data (studies/*/claims.yaml): a kind with parameters computes one
# number from cells, with its confidence interval. verdicts.R compares it with the claim's limit.
#
# `where` selects cells by block and axes. `metric` and `statistic` (default: mean) select the
# values of a cell. `against` replaces axes of `where` to select the cell that each cell is compared
# with.

# Cells are looked up in the table of the campaign's cells. A claim is not judged if one of its
# cells has no valid result.

# Read a file of claims with the values that losslab checked, which are YAML 1.2's: `on` and `off`
# are text, and 1e3 is a number.
read_claims <- function(path) {
  truth <- \(text) switch(tolower(text), true = TRUE, false = FALSE, text)
  whole <- \(text) if (abs(as.numeric(text)) < 1e9) as.integer(text) else as.numeric(text)
  power <- "^[-+]?[0-9.]+[eE][-+]?[0-9]+$"
  number <- \(text) if (all(grepl(power, text))) as.numeric(text) else text
  yaml::read_yaml(path, handlers = list("bool#yes" = truth, "bool#no" = truth, int = whole)) |>
    rapply(number, "character", how = "replace")
}

# Select the cells of a claim, with the number of valid replicates that have its metric.
select_cells <- function(data, claim, replaced = list()) {
  wanted <- utils::modifyList(as.list(claim$where), as.list(replaced))
  unknown <- setdiff(names(wanted), names(data$cells))
  if (length(unknown) > 0) {
    stop("claim ", claim$id, ": axes must be columns of the cells, found ", toString(unknown))
  }
  chosen <- !is.na(data$cells$cell) & matches(data$cells, wanted)
  # Only cells with configured loss have losses to compare.
  if (claim$kind == "largest_loss_z") {
    chosen <- chosen & data$cells$loss_percent > 0
  }
  selected <- data$cells[which(chosen), ]
  runs <- data$replicates
  values <- runs[[metric_of(claim)]]
  has <- if (is.null(values)) character() else runs$cell[which(runs$valid & !is.na(values))]
  selected$n <- tabulate(match(has, selected$cell), nrow(selected))
  selected
}

# Find the rows that have one of the wanted values of each axis.
matches <- function(rows, wanted) {
  same <- lapply(names(wanted), function(axis) rows[[axis]] %in% wanted[[axis]])
  Reduce(`&`, same, rep(TRUE, nrow(rows)))
}

# Get the number, seed and value of a cell's valid replicates that have a metric.
runs_of <- function(data, cell, metric) {
  runs <- data$replicates
  values <- if (metric %in% names(runs)) runs[[metric]] else rep(NA_real_, nrow(runs))
  rows <- which(runs$cell == cell & runs$valid & !is.na(values))
  rows <- rows[order(runs$replicate[rows])]
  # A data frame: building a tibble would take most of the time of judging a claim.
  list(
    replicate = runs$replicate[rows], seed = runs$seed[rows], value = values[rows],
    error_share = runs[["error_share"]][rows]
  )
}

metric_of <- function(claim) {
  if (claim$kind == "largest_loss_z") {
    return("loss_packets")
  }
  if (is.null(claim[["metric"]])) "goodput_mbit" else claim[["metric"]]
}

statistic_of <- function(claim) {
  if (is.null(claim[["statistic"]])) "mean" else claim[["statistic"]]
}

# List all cells that a claim uses: the selected cells, their counterparts and their rivals.
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

# Estimate the value of each selected cell, with its confidence interval and number of runs.
cell_estimates <- function(data, claim, level) {
  cells <- select_cells(data, claim)
  dplyr::bind_rows(lapply(cells$cell, function(cell) {
    runs <- runs_of(data, cell, metric_of(claim))
    level <- level_of(share_of(runs), level)
    c(statistic(runs$value, claim, level), n = length(runs$value))
  }))
}

# Estimate the ratio of each selected cell to its counterpart.
compared_estimates <- function(data, claim, level) {
  cells <- select_cells(data, claim)
  base <- select_cells(data, claim, claim$against)
  shared <- setdiff(c("block", condition_columns), names(claim$against))
  keys <- function(rows) do.call(paste, rows[shared])
  base_keys <- keys(base)
  others <- lapply(keys(cells), \(key) base$cell[base_keys == key])
  others[lengths(others) == 0] <- NA_character_
  ratio_estimates(data, claim, rep(cells$cell, lengths(others)), unlist(others), level)
}

# Find the largest of several cells' values. Its upper limit is the largest of their upper limits.
# For the lower limit, each of k cells gets a k-th of the error (Bonferroni), because any of them
# may be the largest by chance.
largest_of <- function(estimates, level, edge = identity) {
  usual <- edge(estimates(level))
  strict <- if (nrow(usual) == 1) {
    usual
  } else {
    edge(estimates(1 - (1 - level) / nrow(usual)))
  }
  list(
    value = max(usual$value), low = max(strict$low), high = max(usual$high), n = min(usual$n)
  )
}

smallest_of <- function(estimates, level) mirrored(largest_of(estimates, level, mirrored))

mirrored <- function(estimate) {
  estimate[c("value", "low", "high")] <- list(-estimate$value, -estimate$high, -estimate$low)
  estimate
}

# Turn a ratio into a factor of at least one.
as_factor <- function(estimate) {
  inside <- estimate$low <= 1 & estimate$high >= 1
  estimate[c("value", "low", "high")] <- list(
    pmax(estimate$value, 1 / estimate$value),
    ifelse(
      inside, 1,
      pmin(pmax(estimate$low, 1 / estimate$low), pmax(estimate$high, 1 / estimate$high))
    ),
    pmax(estimate$high, 1 / estimate$low)
  )
  estimate
}

as_change <- function(estimate) {
  ends <- c("value", "low", "high")
  estimate[ends] <- lapply(estimate[ends], \(x) 100 * (x - 1))
  estimate
}

# Number of a claim without a pair of cells to compare.
no_number <- list(value = NA_real_, low = NA_real_, high = NA_real_, n = 0L)

# Kinds of claims: functions that turn a claim's cells into one number, its confidence interval and
# n, at a level. `why_not_measured` has checked that each cell has runs.
claim_kinds <- list(
  value = function(data, claim, level) only(cell_estimates(data, claim, level), claim),
  largest = function(data, claim, level) {
    largest_of(\(level) cell_estimates(data, claim, level), level)
  },
  smallest = function(data, claim, level) {
    smallest_of(\(level) cell_estimates(data, claim, level), level)
  },
  # Ratio that is furthest from one, as a factor of at least one.
  largest_factor = function(data, claim, level) {
    largest_of(\(level) cell_estimates(data, claim, level), level, as_factor)
  },
  change_percent = function(data, claim, level) {
    as_change(only(compared_estimates(data, claim, level), claim))
  },
  smallest_ratio = function(data, claim, level) {
    smallest_of(\(level) compared_estimates(data, claim, level), level)
  },
  largest_ratio = function(data, claim, level) {
    largest_of(\(level) compared_estimates(data, claim, level), level)
  },
  # Factor by which the gain of BBR over CUBIC changes from the cells of `against` to those of
  # `where`, averaged over the other axes.
  gain_factor = function(data, claim, level) gain_factor(data, claim, level),
  # Value of the only selected cell over the largest value of the cells that `others` selects.
  value_over_largest = function(data, claim, level) {
    cell <- only(select_cells(data, claim), claim)$cell
    # Exclude the cell itself.
    rivals <- setdiff(select_cells(data, rivals_of(claim))$cell, cell)
    if (length(rivals) == 0) {
      return(no_number)
    }
    smallest_of(\(level) {
      ratio_estimates(data, claim, rep(cell, length(rivals)), rivals, level)
    }, level)
  },
  # Largest rise between neighbouring values of the axis `along`, in percent.
  largest_rise_percent = function(data, claim, level) {
    curve <- select_cells(data, claim)
    # The campaign may measure only one cell of the curve.
    if (nrow(curve) < 2) {
      return(no_number)
    }
    cells <- curve$cell[order(curve[[claim$along]])]
    as_change(largest_of(\(level) {
      ratio_estimates(data, claim, cells[-1], utils::head(cells, -1), level)
    }, level))
  },
  # Largest distance of a cell's losses from the binomial expectation, in standard errors: a test
  # statistic, which has no confidence interval.
  largest_loss_z = function(data, claim, level) {
    cells <- select_cells(data, claim)
    pooled <- pooled_loss(data$replicates)
    z <- max(abs(pooled$z[pooled$cell %in% cells$cell]))
    list(value = z, low = z, high = z, n = min(cells$n))
  },
  # Scatter of the runs of the only selected cell over that of its counterpart's runs.
  scatter_ratio = function(data, claim, level) {
    runs <- lapply(list(list(), claim$against), function(replaced) {
      runs_of(data, only(select_cells(data, claim, replaced), claim)$cell, metric_of(claim))
    })
    share <- min(vapply(runs, share_of, 0))
    scatter_interval(runs[[1]]$value, runs[[2]]$value, level_of(share, level))
  }
)

# Compute the geometric mean of gain over gain, over the selected BBR cells that have a counterpart
# in `against` and both counterparts of CUBIC. Welch's interval on logarithms.
gain_factor <- function(data, claim, level = interval_level) {
  bbr_cells <- select_cells(data, claim, list(algorithm = "bbr"))
  counterparts <- function(replaced) {
    selected <- select_cells(data, claim, replaced)
    shared <- setdiff(c("block", condition_columns), c("algorithm", names(claim$against)))
    keys <- function(rows) do.call(paste, rows[shared])
    selected$cell[match(keys(bbr_cells), keys(selected))]
  }
  cells <- tibble::tibble(
    bbr = bbr_cells$cell, cubic = counterparts(list(algorithm = "cubic")),
    bbr_base = counterparts(c(claim$against, algorithm = "bbr")),
    cubic_base = counterparts(c(claim$against, algorithm = "cubic"))
  )
  cells <- cells[stats::complete.cases(cells), ]
  runs <- lapply(cells, function(column) {
    lapply(column, function(cell) runs_of(data, cell, metric_of(claim)))
  })
  logs <- lapply(runs, function(column) lapply(column, \(sample) log(sample$value)))
  value <- Reduce(`+`, Map(\(runs, sign) sign * vapply(runs, mean, 0), logs, c(1, -1, -1, 1)))
  all <- unlist(logs, recursive = FALSE)
  counts <- lengths(all)
  estimate <- list(
    value = exp(mean(value)), low = NA_real_, high = NA_real_,
    n = if (length(counts) > 0) min(counts) else 0L
  )
  # A run with zero has no logarithm.
  if (estimate$n < min_runs || !is.finite(sum(value))) {
    return(estimate)
  }
  parts <- vapply(all, stats::var, 0) / counts / nrow(cells)^2
  freedom <- sum(parts)^2 / sum(parts^2 / (counts - 1))
  level <- level_of(min(vapply(unlist(runs, recursive = FALSE), share_of, 0)), level)
  half <- if (sum(parts) > 0) {
    stats::qt((1 + level) / 2, freedom) * sqrt(sum(parts))
  } else {
    0
  }
  estimate[c("low", "high")] <- exp(mean(value) + c(-1, 1) * half)
  estimate
}

only <- function(rows, claim) {
  if (nrow(rows) != 1) {
    stop("claim ", claim$id, ": must select one cell, found ", nrow(rows))
  }
  rows
}

no_such_cell <- "this campaign has no such cell"

# Explain why a claim cannot be judged; "" if it can.
why_not_measured <- function(data, claim) {
  for (cells in cells_of(data, claim)) {
    if (nrow(cells) == 0) {
      return(no_such_cell)
    }
    absent <- cells[cells$n == 0, ]
    if (nrow(absent) > 0) {
      invalid <- sum(absent$n_valid == 0 & absent$n_replicates > 0)
      # The reason of optional cells without their public trace (src/losslab/steps.py).
      skipped <- sum(grepl("^its trace is not there", absent$reasons)) == nrow(absent)
      return(paste0(
        if (skipped) "skipped: ",
        if (nrow(absent) == 1) "cell " else "cells ", enumerate(sort(absent$cell), 3),
        " without a ", metric_of(claim), if (invalid > 0) ", no valid replicate"
      ))
    }
  }
  ""
}
