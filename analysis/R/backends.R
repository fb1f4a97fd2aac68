# Labels of the study's blocks: the kind of hosts, in virtual or real time. The other blocks of a
# path are compared with its block on the virtual backend.
backend_labels <- c(
  virtual = "virtual backend", bare = "virtual backend", slow = "virtual backend",
  containers = "containers in a guest, virtual time", host = "containers, real time",
  "bare-host" = "plain hosts, real time, bare path",
  "bare-containers" = "containers, real time, bare path",
  "slow-host" = "plain hosts, real time, slow path",
  "slow-containers" = "containers, real time, slow path"
)
reference_blocks <- names(backend_labels)[backend_labels == "virtual backend"]
real_time_blocks <- names(backend_labels)[grepl("real time", backend_labels)]

# Describe how a cell's condition differs from others of its block, except for the algorithm.
backend_condition <- function(rtt_ms, loss_percent, buffer_packets, competitor) {
  ifelse(
    rtt_ms == 0,
    paste0(
      buffer_packets, " packets", ifelse(competitor == "none", "", paste(", against", competitor))
    ),
    paste0(loss_percent, " % loss")
  )
}

# Metrics other than goodput to compare between two backends.
backend_metrics <- c(
  "competitor_goodput_mbit", "rtt_loaded_ms", "queue_mean_packets", "retransmits"
)

# Pair replicates of two backends by number, which gives them the same seed.
backend_ratios <- function(replicates, metric = "goodput_mbit") {
  values <- replicates |>
    dplyr::filter(valid) |>
    dplyr::select(
      block, dplyr::all_of(condition_columns), replicate, value = dplyr::all_of(metric)
    ) |>
    dplyr::filter(!is.na(value))
  virtual <- values |>
    dplyr::filter(block %in% reference_blocks) |>
    dplyr::select(-block, virtual = value)
  values |>
    dplyr::filter(!block %in% reference_blocks) |>
    dplyr::inner_join(virtual, by = c(condition_columns, "replicate"))
}

# Summarise each cell and backend: both means, and the geometric mean of the paired ratios with its
# confidence interval.
summarise_backend_ratios <- function(pairs) {
  pairs |>
    dplyr::arrange(replicate) |>
    dplyr::group_by(block, dplyr::across(dplyr::all_of(condition_columns))) |>
    dplyr::summarise(
      n = dplyr::n(),
      mean_virtual = mean(virtual),
      mean_value = mean(value),
      tibble::as_tibble(ratio_interval(value, virtual)),
      .groups = "drop"
    ) |>
    with_columns(c("value", "low", "high")) |>
    dplyr::rename(ratio = value)
}
