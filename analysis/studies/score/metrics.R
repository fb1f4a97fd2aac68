# Derived metrics for the criteria.

# Add the derived metrics; `intervals` has the goodput of each second of a run.
score_metrics <- function(replicates, intervals) {
  replicates |>
    with_columns(c(
      "bottleneck_drops", "competitor_goodput_mbit", "time_to_fairness_s", "settle_s",
      "after_change_share", "flow_goodput_min_mbit", "policer_mbit", "policer_drops"
    )) |>
    dplyr::mutate(
      # Packets that leave the bottleneck are offered to the random loss after it.
      sent_packets = loss_offered_packets + bottleneck_drops,
      sent_per_rtt_packets = sent_packets * rtt_ms / 1e3 / duration_s,
      drop_percent = 100 * bottleneck_drops / sent_packets,
      queue_delay_ms = queue_mean_packets * frame_bytes * 8 / (rate_mbit * 1e3),
      competitor_of_fair_percent = 100 * competitor_goodput_mbit / (total_goodput_mbit / 2),
      own_of_fair_percent = 100 * goodput_mbit / (total_goodput_mbit / 2),
      least_of_fair_percent = 100 * flow_goodput_min_mbit / (total_goodput_mbit / 2),
      # Packets that the policer drops reach neither the bottleneck nor the loss.
      policer_drop_percent = 100 * policer_drops / (sent_packets + policer_drops),
      policed_percent = 100 * goodput_mbit / theoretical_goodput(policer_mbit),
      own_of_half_percent = 100 * goodput_mbit / (theoretical_goodput(rate_mbit) / 2),
      after_change_percent = 100 * after_change_share,
      # An event that never happens counts as the run's length.
      fair_after_s = dplyr::coalesce(time_to_fairness_s, duration_s),
      settled_s = dplyr::coalesce(settle_s, duration_s)
    ) |>
    dplyr::left_join(spread_of_seconds(intervals), by = c("cell", "replicate"))
}

# Compute the variation of a run's seconds: standard deviation in percent of the mean.
spread_of_seconds <- function(intervals) {
  intervals |>
    dplyr::group_by(cell, replicate) |>
    dplyr::summarise(
      goodput_cv_percent = 100 * stats::sd(goodput_mbit) / mean(goodput_mbit), .groups = "drop"
    )
}
