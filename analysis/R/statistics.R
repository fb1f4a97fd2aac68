# Summary statistics, bootstrap intervals and paired ratios. Pure functions on data frames.

bootstrap_samples <- 2000

# Percentile bootstrap (Efron 1979) of mean and median. The seed is fixed: equal data, equal
# interval. A single value has no interval.
bootstrap_intervals <- function(x, level = 0.95, seed = 1) {
  edges <- c((1 - level) / 2, (1 + level) / 2)
  if (length(x) < 2) {
    return(list(mean = c(NA_real_, NA_real_), median = c(NA_real_, NA_real_)))
  }
  set.seed(seed, kind = "Mersenne-Twister", sample.kind = "Rejection")
  draws <- matrix(sample(x, length(x) * bootstrap_samples, replace = TRUE), nrow = length(x))
  list(
    mean = stats::quantile(colMeans(draws), edges, names = FALSE),
    median = stats::quantile(column_medians(draws), edges, names = FALSE)
  )
}

# The median of each column; one sort of the whole matrix is much faster than one per column.
column_medians <- function(values) {
  n <- nrow(values)
  sorted <- matrix(values[order(col(values), values, method = "radix")], nrow = n)
  (sorted[(n + 1) %/% 2, ] + sorted[n %/% 2 + 1, ]) / 2
}

no_statistics <- tibble::tibble(
  n = 0L, mean = NA_real_, std = NA_real_, min = NA_real_, q25 = NA_real_, median = NA_real_,
  q75 = NA_real_, max = NA_real_, mean_low = NA_real_, mean_high = NA_real_,
  median_low = NA_real_, median_high = NA_real_
)

# One row of statistics of the values that are there, whatever their order. NA stands where nothing
# was measured.
describe <- function(x) {
  x <- sort(x[!is.na(x)])
  if (length(x) == 0) {
    return(no_statistics)
  }
  interval <- bootstrap_intervals(x)
  quartiles <- stats::quantile(x, c(0.25, 0.5, 0.75), names = FALSE)
  # There are thousands of groups, and tibble() takes longer than everything else here.
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
      mean_low = interval$mean[1],
      mean_high = interval$mean[2],
      median_low = interval$median[1],
      median_high = interval$median[2]
    ),
    nrow = 1
  )
}

# Statistics of a column in each group. No group gives no row, but all columns.
describe_groups <- function(groups, column) {
  dplyr::summarise(groups, describe(.data[[column]]), .groups = "drop") |>
    dplyr::bind_rows(no_statistics[0, ])
}

# Statistics of each cell and metric over its valid replicates.
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

# Statistics of each cell's goodput over the one-second intervals of all valid replicates.
summarise_seconds <- function(intervals) {
  intervals |>
    dplyr::group_by(dplyr::across(dplyr::all_of(cell_columns))) |>
    describe_groups("goodput_mbit") |>
    dplyr::mutate(metric = "goodput_mbit", statistic_over = "seconds")
}

# BBR over CUBIC, paired: replicates with the same number met the same losses.
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

summarise_ratios <- function(replicates) {
  shared <- setdiff(condition_columns, c("algorithm", "competitor"))
  paired_ratios(replicates) |>
    dplyr::group_by(block, dplyr::across(dplyr::all_of(shared))) |>
    describe_groups("ratio")
}

# Change of the mean against the same algorithm and path without loss, in percent.
change_against_baseline <- function(means) {
  baseline <- means |>
    dplyr::filter(loss_percent == 0) |>
    dplyr::select(algorithm, path, baseline = mean)
  means |>
    dplyr::inner_join(baseline, by = c("algorithm", "path")) |>
    dplyr::mutate(change_percent = 100 * (mean / baseline - 1))
}
