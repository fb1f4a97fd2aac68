# Summary statistics, bootstrap intervals and paired ratios. Pure functions on data frames.

bootstrap_samples <- 2000

# Percentile bootstrap (Efron 1979) of a statistic. The seed is fixed: equal data, equal interval.
# A single value has no interval.
bootstrap_interval <- function(x, statistic = mean, level = 0.95, seed = 1) {
  if (length(x) < 2) {
    return(c(low = NA_real_, high = NA_real_))
  }
  set.seed(seed, kind = "Mersenne-Twister", sample.kind = "Rejection")
  draws <- replicate(bootstrap_samples, statistic(sample(x, replace = TRUE)))
  edges <- stats::quantile(draws, c((1 - level) / 2, (1 + level) / 2), names = FALSE)
  c(low = edges[1], high = edges[2])
}

# One row of statistics of the values that are there. NA stands where nothing was measured.
describe <- function(x) {
  x <- x[!is.na(x)]
  if (length(x) == 0) {
    return(tibble::tibble(n = 0L))
  }
  of_mean <- bootstrap_interval(x, mean)
  of_median <- bootstrap_interval(x, stats::median)
  tibble::tibble(
    n = length(x),
    mean = mean(x),
    std = stats::sd(x),
    min = min(x),
    q25 = stats::quantile(x, 0.25, names = FALSE),
    median = stats::median(x),
    q75 = stats::quantile(x, 0.75, names = FALSE),
    max = max(x),
    mean_low = of_mean[["low"]],
    mean_high = of_mean[["high"]],
    median_low = of_median[["low"]],
    median_high = of_median[["high"]]
  )
}

cell_columns <- c("block", "cell", "algorithm", "loss_percent", "path", "app", "rtt_ms", "offloads")

# Statistics of each cell and metric over its valid replicates.
summarise_replicates <- function(replicates, metrics) {
  invalid <- replicates |>
    dplyr::group_by(cell) |>
    dplyr::summarise(n_invalid = sum(!valid), .groups = "drop")
  replicates |>
    dplyr::filter(valid) |>
    tidyr::pivot_longer(dplyr::all_of(metrics), names_to = "metric", values_drop_na = TRUE) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(c(cell_columns, "metric")))) |>
    dplyr::summarise(describe(value), .groups = "drop") |>
    dplyr::left_join(invalid, by = "cell") |>
    dplyr::mutate(statistic_over = "replicates")
}

# Statistics of each cell's goodput over the one-second intervals of all valid replicates.
summarise_seconds <- function(intervals) {
  intervals |>
    dplyr::group_by(dplyr::across(dplyr::all_of(cell_columns))) |>
    dplyr::summarise(describe(goodput_mbit), .groups = "drop") |>
    dplyr::mutate(metric = "goodput_mbit", statistic_over = "seconds")
}

# BBR over CUBIC, paired: replicates with the same number met the same losses.
paired_ratios <- function(replicates, metric = "goodput_mbit") {
  replicates |>
    dplyr::filter(valid, block == "main", algorithm %in% c("cubic", "bbr")) |>
    dplyr::select(algorithm, loss_percent, path, app, replicate, value = dplyr::all_of(metric)) |>
    dplyr::filter(!is.na(value)) |>
    tidyr::pivot_wider(names_from = algorithm, values_from = value) |>
    dplyr::filter(!is.na(cubic), !is.na(bbr), cubic > 0) |>
    dplyr::mutate(ratio = bbr / cubic)
}

summarise_ratios <- function(replicates) {
  paired_ratios(replicates) |>
    dplyr::group_by(loss_percent, path) |>
    dplyr::summarise(describe(ratio), .groups = "drop")
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
