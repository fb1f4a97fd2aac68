# What fq on the sender, which paces every flow, is worth in a shallow buffer: blocks that measure
# the same conditions with it and without, and what the replication's logs say of the same seconds.

# Seconds of a flow's start, of no use for gains: their runs are no runs of the map.
start_block <- "shallow-start"
unpaced_block <- "shallow-unpaced"

# A replicate's goodput with and without fq beside each other: pairs of the same seed.
pacing_pairs <- function(replicates) {
  replicates |>
    with_columns("retransmits") |>
    dplyr::filter(valid, goodput_mbit > 0, block %in% c("shallow", unpaced_block, start_block)) |>
    dplyr::transmute(
      algorithm, rtt_ms, rate_mbit, buffer_packets,
      # iperf3 agrees on its test for four to five round trips before data flow, here for some
      # 0.4 s: a start is measured from 1.5 s on, which is its data's second 1.
      from_s = ifelse(block == start_block, 1, warmup_s),
      to_s = ifelse(block == start_block, 10, duration_s),
      replicate, sender = ifelse(sender_queue == "fq", "paced", "unpaced"),
      mbit = goodput_mbit, again = retransmits
    ) |>
    tidyr::pivot_wider(names_from = sender, values_from = c(mbit, again)) |>
    with_columns(paste(rep(c("mbit", "again"), each = 2), c("paced", "unpaced"), sep = "_")) |>
    dplyr::filter(!is.na(mbit_paced), !is.na(mbit_unpaced))
}

# One row per algorithm, condition and span of time: both goodputs with their intervals, by what
# factor fq changes them, and the replication's, the least and the largest of its kernels'.
pacing_rows <- function(replicates, published) {
  interval_of <- function(x, name) {
    stats::setNames(tibble::as_tibble(mean_interval(x)), paste(name, c("low", "high"), sep = "_"))
  }
  factor_of <- function(paced, unpaced) {
    found <- ratio_interval(paced, unpaced)
    tibble::tibble(
      factor = found$value, factor_low = as.numeric(found$low), factor_high = as.numeric(found$high)
    )
  }
  pacing_pairs(replicates) |>
    dplyr::group_by(algorithm, rtt_ms, rate_mbit, buffer_packets, from_s, to_s) |>
    dplyr::summarise(
      n = dplyr::n(),
      factor_of(mbit_paced, mbit_unpaced),
      paced_mbit = mean(mbit_paced), interval_of(mbit_paced, "paced"),
      unpaced_mbit = mean(mbit_unpaced), interval_of(mbit_unpaced, "unpaced"),
      paced_again = mean(again_paced), unpaced_again = mean(again_unpaced),
      .groups = "drop"
    ) |>
    with_columns(c("factor", "factor_low", "factor_high")) |>
    dplyr::left_join(
      replication_rows(published),
      by = c("algorithm", "rtt_ms", "rate_mbit", "buffer_packets", "from_s", "to_s")
    )
}

# What the replication has of a span of time: its logs' seconds, or its whole runs of 60 s.
replication_rows <- function(published) {
  published |>
    dplyr::filter(startsWith(source, "datta2023")) |>
    dplyr::mutate(from_s = dplyr::coalesce(from_s, 0), to_s = dplyr::coalesce(to_s, 60)) |>
    tidyr::pivot_longer(
      c(cubic_mbit, bbr_mbit),
      names_to = "algorithm", names_pattern = "(.*)_mbit", values_to = "mbit"
    ) |>
    dplyr::filter(!is.na(mbit)) |>
    dplyr::group_by(algorithm, rtt_ms, rate_mbit, buffer_packets, from_s, to_s) |>
    dplyr::summarise(
      replication_least_mbit = min(mbit), replication_most_mbit = max(mbit),
      # In the first second, the mean of both kernels: a packet or two apart.
      replication_again_first_s = mean(retransmits_first_second),
      .groups = "drop"
    )
}
