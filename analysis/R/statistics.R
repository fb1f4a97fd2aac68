# Summary statistics and paired ratios. Pure functions on data frames.

no_statistics <- tibble::tibble(
  n = 0L, mean = NA_real_, std = NA_real_, min = NA_real_, q25 = NA_real_, median = NA_real_,
  q75 = NA_real_, max = NA_real_, mean_low = NA_real_, mean_high = NA_real_,
  median_low = NA_real_, median_high = NA_real_
)

interval_columns <- c("mean_low", "mean_high", "median_low", "median_high")

# Compute one row of statistics of a metric's non-missing values, with intervals of a level. The
# order of the values does not matter; without values, all are NA.
describe <- function(x, metric = "", level = interval_level) {
  x <- sort(x[!is.na(x)])
  if (length(x) == 0) {
    return(no_statistics)
  }
  of_mean <- mean_interval_of(x, metric, level)
  of_median <- median_interval(x, level)
  quartiles <- stats::quantile(x, c(0.25, 0.5, 0.75), names = FALSE)
  # There are thousands of groups, and tibble() would take longer than the statistics.
  tibble::new_tibble(
    list(
      n = length(x),
      mean = mean(x),
      std = stats::sd(x),
      min = x[1],
      q25 = quartiles[1],
      median = quartiles[2],
      q75 = quartiles[3],
      max = x[length(x)],
      mean_low = of_mean$low,
      mean_high = of_mean$high,
      median_low = of_median$low,
      median_high = of_median$high
    ),
    nrow = 1
  )
}

# Compute statistics of a column in each group. Without groups, return all columns and no row.
describe_groups <- function(groups, column) {
  metric_of_group <- if ("metric" %in% dplyr::group_vars(groups)) {
    \() dplyr::cur_group()$metric
  } else {
    \() column
  }
  if (!"error_share" %in% names(groups)) groups$error_share <- 1
  groups |>
    dplyr::summarise(
      describe(.data[[column]], metric_of_group(), level_of(min(1, .data$error_share))),
      .groups = "drop"
    ) |>
    dplyr::bind_rows(no_statistics[0, ])
}

# Compute statistics of each cell and metric over the valid replicates.
summarise_replicates <- function(replicates) {
  metrics <- setdiff(names(replicates), fixed_columns)
  invalid <- replicates |>
    dplyr::group_by(cell) |>
    dplyr::summarise(n_invalid = sum(!valid), .groups = "drop")
  replicates |>
    dplyr::filter(valid) |>
    tidyr::pivot_longer(dplyr::all_of(metrics), names_to = "metric", values_drop_na = TRUE) |>
    dplyr::group_by(study, block, cell, metric) |>
    describe_groups("value") |>
    with_axes(dplyr::distinct(replicates[cell_columns])) |>
    dplyr::left_join(invalid, by = "cell") |>
    dplyr::mutate(statistic_over = "replicates")
}

# Compute statistics of each cell's goodput over the one-second intervals of all valid replicates.
# The seconds of a run are not independent, so there is no confidence interval.
summarise_seconds <- function(intervals) {
  intervals |>
    dplyr::group_by(study, block, cell) |>
    describe_groups("goodput_mbit") |>
    with_axes(dplyr::distinct(intervals[cell_columns])) |>
    dplyr::mutate(
      metric = "goodput_mbit", statistic_over = "seconds",
      dplyr::across(dplyr::all_of(interval_columns), \(x) NA_real_)
    )
}

# Axes of a condition that BBR and CUBIC are compared in.
ratio_columns <- c("block", setdiff(condition_columns, c("algorithm", "competitor")))

# Pair BBR and CUBIC: replicates with the same number have the same seed. They share the random
# numbers of the loss and of the start's delay, but not the lost packets, because the algorithms
# send at different times.
paired_ratios <- function(replicates) {
  share_error(runs_of_both(replicates), ratio_columns) |>
    dplyr::select(
      dplyr::all_of(ratio_columns), error_share, algorithm, replicate, value = goodput_mbit
    ) |>
    tidyr::pivot_wider(names_from = algorithm, values_from = value) |>
    with_columns(c("cubic", "bbr")) |>
    dplyr::filter(!is.na(cubic), !is.na(bbr), cubic > 0) |>
    dplyr::mutate(ratio = bbr / cubic)
}

runs_of_both <- function(replicates) {
  dplyr::filter(
    replicates, valid, competitor == "none", algorithm %in% c("cubic", "bbr"), !is.na(goodput_mbit)
  )
}

# Give all runs of a comparison the smallest share of the error that one of them has.
share_error <- function(replicates, groups) {
  replicates |>
    dplyr::group_by(dplyr::across(dplyr::all_of(groups))) |>
    dplyr::mutate(error_share = min(1, error_share)) |>
    dplyr::ungroup()
}

# Compute statistics of ratios. `mean` is the geometric mean, so the mean of A over B is the inverse
# of the mean of B over A.
summarise_ratios <- function(replicates) {
  pairs <- paired_ratios(replicates) |>
    dplyr::arrange(replicate) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(ratio_columns)))
  geometric <- runs_of_both(replicates) |>
    dplyr::arrange(replicate) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(ratio_columns))) |>
    dplyr::filter(dplyr::n_distinct(algorithm) == 2) |>
    dplyr::summarise(
      geometric_mean(algorithm, replicate, goodput_mbit, error_share),
      .groups = "drop"
    )
  describe_groups(pairs, "ratio") |>
    dplyr::select(-dplyr::all_of(c("mean", "mean_low", "mean_high"))) |>
    dplyr::left_join(
      with_columns(geometric, c("mean", "mean_low", "mean_high")), by = ratio_columns
    ) |>
    dplyr::relocate(dplyr::all_of(names(no_statistics)), .after = dplyr::last_col())
}

# Compute the columns `mean`, `mean_low` and `mean_high` of the ratio of BBR to CUBIC.
geometric_mean <- function(algorithm, replicate, value, error_share) {
  runs <- tibble::tibble(replicate, seed = replicate, value, error_share)
  found <- ratio_of_runs(runs[algorithm == "bbr", ], runs[algorithm == "cubic", ])
  tibble::tibble(mean = found$value, mean_low = found$low, mean_high = found$high)
}

# Compute the change of the mean against the same algorithm and path without loss, in percent.
change_against_baseline <- function(means) {
  baseline <- means |>
    dplyr::filter(loss_percent == 0) |>
    dplyr::select(algorithm, path, baseline = mean)
  means |>
    dplyr::inner_join(baseline, by = c("algorithm", "path")) |>
    dplyr::mutate(change_percent = 100 * (mean / baseline - 1))
}
