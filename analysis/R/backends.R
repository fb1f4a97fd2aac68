# Ratios of what other backends measured to what the virtual one did, replicate by replicate: the
# same number has the same seed, and so the same losses.
backend_ratios <- function(replicates, metric = "goodput_mbit") {
  values <- replicates |>
    dplyr::filter(valid) |>
    dplyr::select(
      block, dplyr::all_of(condition_columns), replicate, value = dplyr::all_of(metric)
    ) |>
    dplyr::filter(!is.na(value))
  virtual <- values |>
    dplyr::filter(block == "virtual", value > 0) |>
    dplyr::select(-block, virtual = value)
  values |>
    dplyr::filter(block != "virtual") |>
    dplyr::inner_join(virtual, by = c(condition_columns, "replicate")) |>
    dplyr::mutate(ratio = value / virtual)
}

# Per cell and backend: both means, and the ratio of the means with its bootstrap interval over
# pairs.
summarise_backend_ratios <- function(pairs) {
  pairs |>
    dplyr::arrange(replicate) |>
    dplyr::group_by(block, dplyr::across(dplyr::all_of(condition_columns))) |>
    dplyr::summarise(
      n = dplyr::n(),
      mean_virtual = mean(virtual),
      mean_value = mean(value),
      paired_ratio_of_means(value, virtual),
      .groups = "drop"
    ) |>
    with_columns(c("ratio", "low", "high"))
}

# mean(a) / mean(b) of pairs, with its percentile bootstrap interval; none of a single pair.
paired_ratio_of_means <- function(a, b, level = 0.95, seed = 1) {
  ratio <- mean(a) / mean(b)
  if (length(a) < 2) {
    return(tibble::tibble(ratio = ratio, low = NA_real_, high = NA_real_))
  }
  set.seed(seed, kind = "Mersenne-Twister", sample.kind = "Rejection")
  picks <- matrix(
    sample(seq_along(a), length(a) * bootstrap_samples, replace = TRUE),
    nrow = length(a)
  )
  draws <- colMeans(matrix(a[picks], nrow = length(a))) /
    colMeans(matrix(b[picks], nrow = length(b)))
  edges <- stats::quantile(draws, c((1 - level) / 2, (1 + level) / 2), names = FALSE)
  tibble::tibble(ratio = ratio, low = edges[1], high = edges[2])
}

backend_labels <- c(
  containers = "containers in a guest, virtual time", host = "containers on the host, real time"
)
