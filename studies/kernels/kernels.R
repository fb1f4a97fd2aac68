# Reference kernel: the kernel of all other studies.
reference_kernel <- "6.12"

# Pair replicates on another kernel and on the reference by number, which gives them the same seed.
kernel_pairs <- function(replicates, metric = "goodput_mbit") {
  shared <- c("block", setdiff(condition_columns, "kernel"), "replicate")
  values <- replicates |>
    dplyr::filter(valid, block %in% c("loss", "shallow")) |>
    dplyr::select(dplyr::all_of(c(shared, "kernel")), value = dplyr::all_of(metric)) |>
    dplyr::filter(!is.na(value))
  reference <- values |>
    dplyr::filter(kernel == reference_kernel) |>
    dplyr::select(-kernel) |>
    dplyr::rename(reference = value)
  values |>
    dplyr::filter(kernel != reference_kernel) |>
    dplyr::inner_join(reference, by = shared)
}

# Summarise each cell and kernel: both means, and the geometric mean of the paired ratios with its
# confidence interval.
kernel_ratios <- function(pairs) {
  pairs |>
    dplyr::arrange(replicate) |>
    dplyr::group_by(block, dplyr::across(dplyr::all_of(condition_columns))) |>
    dplyr::summarise(
      n = dplyr::n(),
      mean_reference = mean(reference),
      mean_value = mean(value),
      tibble::as_tibble(ratio_interval(value, reference)),
      .groups = "drop"
    ) |>
    with_columns(c("value", "low", "high")) |>
    dplyr::rename(ratio = value) |>
    dplyr::arrange(block, loss_percent, rtt_ms, dplyr::desc(algorithm), kernel)
}

# Name the condition of a cell, without its algorithm and kernel.
kernel_condition <- function(block, loss_percent, rtt_ms, rate_mbit) {
  ifelse(
    block == "loss",
    paste0(loss_percent, " % loss, ", rtt_ms, " ms"),
    paste0("100 KB of buffer, ", rate_mbit, " Mbit/s, ", rtt_ms, " ms")
  )
}

# Both flows of each cell of the block `beside`, a row each: its algorithm, that of the other flow,
# and whether it started first.
beside_flows <- function(cells) {
  pairs <- filter(cells, block == "beside")
  bind_rows(
    pairs |>
      filter(metric == "goodput_mbit") |>
      mutate(beside = competitor, started = "first"),
    pairs |>
      filter(metric == "competitor_goodput_mbit") |>
      mutate(beside = algorithm, algorithm = competitor, started = "second")
  )
}
