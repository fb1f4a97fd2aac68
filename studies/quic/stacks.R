# Two stacks with algorithms of the same names, paired by replicate number, which gives the same
# seed and random numbers for losses and start.

# Names of the stacks.
stack_labels <- c(iperf3 = "kernel's TCP", quic = "ngtcp2's QUIC")

# Pair the replicates of both stacks.
stack_pairs <- function(replicates, metric = "goodput_mbit") {
  shared <- c("block", setdiff(condition_columns, "app"), "replicate")
  replicates |>
    dplyr::filter(valid, block != "stacks", app %in% names(stack_labels)) |>
    dplyr::select(dplyr::all_of(shared), app, value = dplyr::all_of(metric)) |>
    dplyr::filter(!is.na(value)) |>
    tidyr::pivot_wider(names_from = "app", values_from = "value") |>
    with_columns(names(stack_labels)) |>
    dplyr::filter(!is.na(iperf3), !is.na(quic), iperf3 > 0)
}

# Summarise each condition: both means, and the geometric mean of QUIC over TCP with its confidence
# interval.
stack_ratios <- function(pairs) {
  pairs |>
    dplyr::arrange(replicate) |>
    dplyr::group_by(block, algorithm, rate_mbit, rtt_ms, buffer_packets, loss_percent) |>
    dplyr::summarise(
      n = dplyr::n(),
      mean_tcp = mean(iperf3),
      mean_quic = mean(quic),
      tibble::as_tibble(ratio_interval(quic, iperf3)),
      .groups = "drop"
    ) |>
    with_columns(c("value", "low", "high")) |>
    dplyr::rename(ratio = value) |>
    dplyr::arrange(buffer_packets, loss_percent, algorithm)
}

# Name a condition, without its algorithm.
stack_condition <- function(buffer_packets, loss_percent) {
  paste0(loss_percent, " % loss, ", buffer_packets, " packets")
}

# Name the stack and the congestion control of each cell of the block `stacks`. The programs of the
# other stacks have both in their environment.
with_stacks <- function(rows) {
  named <- rows$app == "command"
  variable <- \(name) sub(paste0(".*", name, "=(\\S+).*"), "\\1", rows$env)
  rows |>
    dplyr::mutate(
      stack = as.character(
        ifelse(named, variable("STACK"), sub("'s (TCP|QUIC)", "", stack_labels[app]))
      ),
      algorithm = ifelse(named, variable("CC"), algorithm)
    )
}
