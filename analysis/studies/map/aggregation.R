# Fewer acknowledgements in shallow buffers without fq: goodput and retransmissions by the share of
# acknowledgements that get through, and the replication's.

# Compute the time between two acknowledgements of a full link, in ms: a receiver acknowledges every
# second segment (RFC 5681, section 4.2), and one in `ack_thinning` of them gets through.
ack_interval_ms <- function(ack_thinning, rate_mbit) {
  2 * ack_thinning * frame_bytes * 8 / (rate_mbit * 1e3)
}

# Summarise each algorithm, condition and share of acknowledgements, with its confidence interval,
# in the conditions in which acknowledgements were dropped.
aggregation_rows <- function(replicates, published) {
  found <- replicates |>
    with_columns("retransmits") |>
    dplyr::filter(
      valid, goodput_mbit > 0, block %in% c(unpaced_block, thinned_block, aggregated_block)
    ) |>
    dplyr::group_by(algorithm, rtt_ms, rate_mbit, buffer_packets, ack_thinning) |>
    dplyr::summarise(
      n = dplyr::n(), level = level_of(dplyr::first(error_share)), mbit = mean(goodput_mbit),
      tibble::as_tibble(mean_interval(goodput_mbit, level)), retransmits = mean(retransmits),
      .groups = "drop"
    ) |>
    dplyr::group_by(algorithm, rtt_ms, rate_mbit, buffer_packets) |>
    dplyr::filter(any(ack_thinning > 1)) |>
    dplyr::ungroup()
  found |>
    with_columns(c("low", "high")) |>
    dplyr::select(-level) |>
    dplyr::mutate(interval_ms = ack_interval_ms(ack_thinning, rate_mbit), .after = ack_thinning) |>
    dplyr::left_join(
      dplyr::filter(replication_rows(published), to_s == 60) |>
        dplyr::select(-from_s, -to_s, -replication_again_first_s),
      by = c("algorithm", "rtt_ms", "rate_mbit", "buffer_packets")
    )
}
