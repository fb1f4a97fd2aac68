# Claims are data (report/claims/*.yaml): a kind with parameters makes one number of cells, with its
# interval. verdicts.R compares it with the claim's limit.
#
# `where` selects cells by block and axes, `metric` and `statistic` (mean unless stated) what is
# looked at in them. `against` replaces some of the axes of `where` to give the cell that each one
# is compared with.

# Everything that a claim looks at is looked up in the table of the campaign's cells. A claim of
# which a single cell has no number is not judged.

# The cells that a claim selects, and how many of their valid replicates have what is looked at.
select_cells <- function(data, claim, replaced = list()) {
  wanted <- utils::modifyList(as.list(claim$where), as.list(replaced))
  unknown <- setdiff(names(wanted), names(data$cells))
  if (length(unknown) > 0) {
    stop("claim ", claim$id, ": axes must be columns of the cells, found ", toString(unknown))
  }
  found <- rows_of(data$cells[!is.na(data$cells$cell), ], wanted)
  # Only losses can be compared with the configured ones.
  if (claim$kind == "largest_loss_z") {
    found <- found[found$loss_percent > 0, ]
  }
  runs <- data$replicates
  values <- runs[[metric_of(claim)]]
  has <- if (is.null(values)) character() else runs$cell[which(runs$valid & !is.na(values))]
  found$n <- vapply(found$cell, function(cell) sum(has == cell), 1L)
  found
}

rows_of <- function(rows, wanted) {
  same <- lapply(names(wanted), function(axis) rows[[axis]] %in% wanted[[axis]])
  rows[Reduce(`&`, same, rep(TRUE, nrow(rows))), ]
}

# A cell's valid replicates that have a metric: their numbers, seeds and values.
runs_of <- function(data, cell, metric) {
  runs <- data$replicates
  values <- if (metric %in% names(runs)) runs[[metric]] else rep(NA_real_, nrow(runs))
  rows <- which(runs$cell == cell & runs$valid & !is.na(values))
  rows <- rows[order(runs$replicate[rows])]
  tibble::tibble(replicate = runs$replicate[rows], seed = runs$seed[rows], value = values[rows])
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

# Each selected cell's value with its interval at a level, and of how many runs it is.
cell_estimates <- function(data, claim, level) {
  cells <- select_cells(data, claim)
  dplyr::bind_rows(lapply(cells$cell, function(cell) {
    values <- runs_of(data, cell, metric_of(claim))$value
    tibble::as_tibble(c(statistic(values, statistic_of(claim), level), n = length(values)))
  }))
}

# A statistic of values with its interval. The extremes of what was run are observed and have none.
statistic <- function(values, name, level) {
  switch(name,
    mean = c(value = mean(values), mean_interval(values, level)),
    median = c(value = stats::median(values), median_interval(values, level)),
    min = list(value = min(values), low = min(values), high = min(values)),
    max = list(value = max(values), low = max(values), high = max(values)),
    std = c(value = stats::sd(values), no_interval),
    q25 = c(value = stats::quantile(values, 0.25, names = FALSE), no_interval),
    q75 = c(value = stats::quantile(values, 0.75, names = FALSE), no_interval)
  )
}

# The ratio of each selected cell to the one that it is compared with.
compared_estimates <- function(data, claim, level) {
  cells <- select_cells(data, claim)
  base <- select_cells(data, claim, claim$against)
  shared <- setdiff(c("block", condition_columns), names(claim$against))
  pairs <- dplyr::left_join(
    cells, dplyr::select(base, dplyr::all_of(shared), base = cell),
    by = shared
  )
  ratio_estimates(data, claim, pairs$cell, pairs$base, level)
}

# The ratio of each cell to another: the geometric mean over pairs of runs with the same seed, or,
# where the two conditions have different seeds, of runs that are no pairs. Of other statistics than
# the mean there is the plain ratio.
ratio_estimates <- function(data, claim, cells, others, level) {
  dplyr::bind_rows(Map(function(cell, other) {
    a <- runs_of(data, cell, metric_of(claim))
    b <- runs_of(data, other, metric_of(claim))
    name <- statistic_of(claim)
    if (name != "mean") {
      plain <- statistic(a$value, name, level)$value / statistic(b$value, name, level)$value
      return(tibble::tibble(
        value = plain, low = NA_real_, high = NA_real_, n = min(nrow(a), nrow(b))
      ))
    }
    pairs <- dplyr::inner_join(a, b, by = c("replicate", "seed"), suffix = c("_a", "_b"))
    paired <- nrow(pairs) > 0
    found <- if (paired) {
      ratio_interval(pairs$value_a, pairs$value_b, TRUE, level)
    } else {
      ratio_interval(a$value, b$value, FALSE, level)
    }
    tibble::as_tibble(c(found, n = if (paired) nrow(pairs) else min(nrow(a), nrow(b))))
  }, cells, others))
}

# The largest of several cells' values. Its upper end is the largest of their upper ends; for its
# lower end each of k cells gets a k-th of the error (Bonferroni), since any one may be the largest
# by chance.
largest_of <- function(estimates, edge = identity) {
  usual <- edge(estimates(interval_level))
  strict <- edge(estimates(1 - (1 - interval_level) / nrow(usual)))
  list(
    value = max(usual$value), low = max(strict$low), high = max(usual$high), n = min(usual$n)
  )
}

smallest_of <- function(estimates) mirrored(largest_of(estimates, mirrored))

mirrored <- function(found) {
  found[c("value", "low", "high")] <- list(-found$value, -found$high, -found$low)
  found
}

# As a factor of at least one, whichever way it is off.
as_factor <- function(found) {
  inside <- found$low <= 1 & found$high >= 1
  found[c("value", "low", "high")] <- list(
    pmax(found$value, 1 / found$value),
    ifelse(inside, 1, pmin(pmax(found$low, 1 / found$low), pmax(found$high, 1 / found$high))),
    pmax(found$high, 1 / found$low)
  )
  found
}

as_change <- function(found) {
  found[c("value", "low", "high")] <- lapply(found[c("value", "low", "high")], \(x) 100 * (x - 1))
  found
}

# How a claim's cells become one number, its interval and n. Each cell has its runs:
# `why_not_measured` has seen to that.
claim_kinds <- list(
  value = function(data, claim) only(cell_estimates(data, claim, interval_level), claim),
  largest = function(data, claim) largest_of(\(level) cell_estimates(data, claim, level)),
  smallest = function(data, claim) smallest_of(\(level) cell_estimates(data, claim, level)),
  # The value farthest from one, as a ratio of at least one.
  largest_factor = function(data, claim) {
    largest_of(\(level) cell_estimates(data, claim, level), as_factor)
  },
  change_percent = function(data, claim) {
    as_change(only(compared_estimates(data, claim, interval_level), claim))
  },
  smallest_ratio = function(data, claim) {
    smallest_of(\(level) compared_estimates(data, claim, level))
  },
  largest_ratio = function(data, claim) {
    largest_of(\(level) compared_estimates(data, claim, level))
  },
  # By what factor the gain of BBR over CUBIC changes from the cells of `against` to those of
  # `where`, the other axes averaged over.
  gain_factor = function(data, claim) gain_factor(data, claim),
  # The only selected cell's value over the largest of the cells that `others` selects: the smallest
  # of its ratios to each.
  value_over_largest = function(data, claim) {
    cell <- only(select_cells(data, claim), claim)$cell
    # It is no rival of its own.
    rivals <- setdiff(select_cells(data, rivals_of(claim))$cell, cell)
    if (length(rivals) == 0) {
      return(list(value = NA_real_, low = NA_real_, high = NA_real_, n = 0L))
    }
    smallest_of(\(level) ratio_estimates(data, claim, rep(cell, length(rivals)), rivals, level))
  },
  # The largest step upwards along the axis `along`, in percent.
  largest_rise_percent = function(data, claim) {
    curve <- select_cells(data, claim)
    cells <- curve$cell[order(curve[[claim$along]])]
    as_change(largest_of(\(level) {
      ratio_estimates(data, claim, cells[-1], utils::head(cells, -1), level)
    }))
  },
  # How far the losses of any cell are from the binomial distribution, in standard errors: a test's
  # statistic, which has no interval.
  largest_loss_z = function(data, claim) {
    cells <- select_cells(data, claim)
    pooled <- pooled_loss(data$replicates)
    z <- max(abs(pooled$z[pooled$cell %in% cells$cell]))
    list(value = z, low = z, high = z, n = min(cells$n))
  }
)

# The geometric mean, over the selected cells of BBR that have both counterparts of CUBIC and one of
# their own in the cells compared with, of gain over gain. Welch's interval on logarithms.
gain_factor <- function(data, claim) {
  here <- select_cells(data, claim, list(algorithm = "bbr"))
  other <- function(replaced) {
    found <- select_cells(data, claim, replaced)
    shared <- setdiff(c("block", condition_columns), c("algorithm", names(claim$against)))
    keys <- function(rows) do.call(paste, rows[shared])
    found$cell[match(keys(here), keys(found))]
  }
  cells <- tibble::tibble(
    bbr = here$cell, cubic = other(list(algorithm = "cubic")),
    bbr_base = other(c(claim$against, algorithm = "bbr")),
    cubic_base = other(c(claim$against, algorithm = "cubic"))
  )
  cells <- cells[stats::complete.cases(cells), ]
  logs <- lapply(cells, function(column) {
    lapply(column, function(cell) log(runs_of(data, cell, metric_of(claim))$value))
  })
  value <- Reduce(`+`, Map(\(runs, sign) sign * vapply(runs, mean, 0), logs, c(1, -1, -1, 1)))
  all <- unlist(logs, recursive = FALSE)
  counts <- lengths(all)
  estimate <- list(
    value = exp(mean(value)), low = NA_real_, high = NA_real_,
    n = if (length(counts) > 0) min(counts) else 0L
  )
  if (estimate$n < least_runs) {
    return(estimate)
  }
  parts <- vapply(all, stats::var, 0) / counts / nrow(cells)^2
  freedom <- sum(parts)^2 / sum(parts^2 / (counts - 1))
  half <- if (sum(parts) > 0) {
    stats::qt((1 + interval_level) / 2, freedom) * sqrt(sum(parts))
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

# Why a claim cannot be judged; empty where it can.
why_not_measured <- function(data, claim) {
  for (cells in cells_of(data, claim)) {
    if (nrow(cells) == 0) {
      return("no cell of this campaign is meant")
    }
    absent <- cells[cells$n == 0, ]
    if (nrow(absent) > 0) {
      invalid <- sum(absent$n_valid == 0 & absent$n_replicates > 0)
      return(paste0(
        if (nrow(absent) == 1) "cell " else "cells ", enumerate(sort(absent$cell), 3),
        " without a ", metric_of(claim), if (invalid > 0) ", no valid replicate"
      ))
    }
  }
  ""
}
