# Effect of fq on the sender, which paces every flow, with a shallow buffer: the same conditions
# with and without fq, and the replication's logs of the same seconds.

# Pair each replicate's goodput with and without fq by seed.
pacing_pairs <- function(replicates) {
  replicates |>
    with_columns("retransmits") |>
    dplyr::filter(valid, goodput_mbit > 0, block %in% c("shallow", unpaced_block, start_block)) |>
    dplyr::transmute(
      algorithm, rtt_ms, rate_mbit, buffer_packets,
      # iperf3 negotiates its test for four to five round trips before data flow, here about 0.4 s.
      # A start is measured from 1.5 s on, which is second 1 of its data.
      from_s = ifelse(block == start_block, 1, warmup_s),
      to_s = ifelse(block == start_block, 10, duration_s),
      replicate, sender = ifelse(sender_queue == "fq", "paced", "unpaced"),
      mbit = goodput_mbit, again = retransmits, error_share
    ) |>
    share_error(c("algorithm", "rtt_ms", "rate_mbit", "buffer_packets", "from_s", "to_s")) |>
    tidyr::pivot_wider(names_from = sender, values_from = c(mbit, again)) |>
    with_columns(paste(rep(c("mbit", "again"), each = 2), c("paced", "unpaced"), sep = "_")) |>
    dplyr::filter(!is.na(mbit_paced), !is.na(mbit_unpaced))
}

# Summarise each algorithm, condition and time span: both goodputs with confidence intervals, the
# factor by which fq changes them, and the minimum and maximum of the replication's kernels.
pacing_rows <- function(replicates, published) {
  interval_of <- function(x, name, level) {
    ends <- tibble::as_tibble(mean_interval(x, level))
    stats::setNames(ends, paste(name, c("low", "high"), sep = "_"))
  }
  factor_of <- function(paced, unpaced, level) {
    ratio <- ratio_interval(paced, unpaced, TRUE, level)
    tibble::tibble(
      factor = ratio$value, factor_low = as.numeric(ratio$low), factor_high = as.numeric(ratio$high)
    )
  }
  pacing_pairs(replicates) |>
    dplyr::group_by(algorithm, rtt_ms, rate_mbit, buffer_packets, from_s, to_s) |>
    dplyr::summarise(
      n = dplyr::n(), level = level_of(min(error_share)),
      factor_of(mbit_paced, mbit_unpaced, level),
      paced_mbit = mean(mbit_paced), interval_of(mbit_paced, "paced", level),
      unpaced_mbit = mean(mbit_unpaced), interval_of(mbit_unpaced, "unpaced", level),
      paced_again = mean(again_paced), unpaced_again = mean(again_unpaced),
      .groups = "drop"
    ) |>
    with_columns(c("factor", "factor_low", "factor_high")) |>
    dplyr::select(-level) |>
    dplyr::left_join(
      replication_rows(published),
      by = c("algorithm", "rtt_ms", "rate_mbit", "buffer_packets", "from_s", "to_s")
    )
}

# Get the replication's values of a time span: seconds of its logs, or its whole runs of 60 s.
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
      # In the first second, the mean of both kernels, which differ by one or two packets.
      replication_again_first_s = mean(retransmits_first_second),
      .groups = "drop"
    )
}
