# The study's blocks: what the hosts are, in a guest in virtual time or on the machine's own kernel
# in real time. Of each path one is the virtual backend's, to which the others are compared.
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

# What a cell differs in from the others of its block, beside the algorithm.
backend_condition <- function(rtt_ms, loss_percent, buffer_packets, competitor) {
  ifelse(
    rtt_ms == 0,
    paste0(
      buffer_packets, " packets", ifelse(competitor == "none", "", paste(", against", competitor))
    ),
    paste0(loss_percent, " % loss")
  )
}

# What else than goodput two backends can differ in.
backend_metrics <- c(
  "competitor_goodput_mbit", "rtt_loaded_ms", "queue_mean_packets", "retransmits"
)

# Pairs of replicates, one per backend: the same number has the same seed.
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

# Per cell and backend: both means, and the geometric mean of the pairs' ratios with its interval.
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
