# Summary statistics and paired ratios. Pure functions on data frames.

no_statistics <- tibble::tibble(
  n = 0L, mean = NA_real_, std = NA_real_, min = NA_real_, q25 = NA_real_, median = NA_real_,
  q75 = NA_real_, max = NA_real_, mean_low = NA_real_, mean_high = NA_real_,
  median_low = NA_real_, median_high = NA_real_
)

interval_columns <- c("mean_low", "mean_high", "median_low", "median_high")

# Compute one row of statistics of the non-missing values, independent of their order; NA without
# values.
describe <- function(x) {
  x <- sort(x[!is.na(x)])
  if (length(x) == 0) {
    return(no_statistics)
  }
  of_mean <- mean_interval(x)
  of_median <- median_interval(x)
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
  dplyr::summarise(groups, describe(.data[[column]]), .groups = "drop") |>
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
    dplyr::group_by(dplyr::across(dplyr::all_of(c(cell_columns, "metric")))) |>
    describe_groups("value") |>
    dplyr::left_join(invalid, by = "cell") |>
    dplyr::mutate(statistic_over = "replicates")
}

# Compute statistics of each cell's goodput over the one-second intervals of all valid replicates.
# The seconds of a run are not independent, so there is no confidence interval.
summarise_seconds <- function(intervals) {
  intervals |>
    dplyr::group_by(dplyr::across(dplyr::all_of(cell_columns))) |>
    describe_groups("goodput_mbit") |>
    dplyr::mutate(
      metric = "goodput_mbit", statistic_over = "seconds",
      dplyr::across(dplyr::all_of(interval_columns), \(x) NA_real_)
    )
}

# Pair BBR and CUBIC: replicates with the same number have the same seed. They share the random
# numbers of the loss and of the start's delay, but not the lost packets, because the algorithms
# send at different times.
paired_ratios <- function(replicates, metric = "goodput_mbit") {
  shared <- setdiff(condition_columns, c("algorithm", "competitor"))
  replicates |>
    dplyr::filter(valid, competitor == "none", algorithm %in% c("cubic", "bbr")) |>
    dplyr::select(
      block, dplyr::all_of(shared), algorithm, replicate, value = dplyr::all_of(metric)
    ) |>
    dplyr::filter(!is.na(value)) |>
    tidyr::pivot_wider(names_from = algorithm, values_from = value) |>
    with_columns(c("cubic", "bbr")) |>
    dplyr::filter(!is.na(cubic), !is.na(bbr), cubic > 0) |>
    dplyr::mutate(ratio = bbr / cubic)
}

# Compute statistics of ratios. `mean` is the geometric mean, so the mean of A over B is the inverse
# of the mean of B over A.
summarise_ratios <- function(replicates) {
  shared <- setdiff(condition_columns, c("algorithm", "competitor"))
  pairs <- paired_ratios(replicates) |>
    dplyr::arrange(replicate) |>
    dplyr::group_by(block, dplyr::across(dplyr::all_of(shared)))
  geometric <- dplyr::summarise(
    pairs, geometric_mean(bbr, cubic), .groups = "drop"
  )
  describe_groups(pairs, "ratio") |>
    dplyr::select(-dplyr::all_of(c("mean", "mean_low", "mean_high"))) |>
    dplyr::left_join(
      with_columns(geometric, c("mean", "mean_low", "mean_high")), by = c("block", shared)
    ) |>
    dplyr::relocate(dplyr::all_of(names(no_statistics)), .after = dplyr::last_col())
}

# Compute the columns `mean`, `mean_low` and `mean_high` of paired ratios.
geometric_mean <- function(a, b) {
  found <- ratio_interval(a, b)
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
