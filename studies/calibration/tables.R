# Measured values and the values of formulas.
tables <- function(data, write) {
  cells <- data$summary |>
    filter(statistic_over == "replicates")

  cells |>
    filter(block == "rtt", metric == "rtt_error_percent") |>
    select(rtt_ms, n, largest_error_percent = max) |>
    arrange(rtt_ms) |>
    write("rtt")

  cells |>
    filter(block == "utilisation", metric == "utilisation_percent") |>
    mutate(theoretical_mbit = theoretical_goodput(rate_mbit)) |>
    select(rate_mbit, rtt_ms, algorithm, theoretical_mbit, n, utilisation_percent = mean) |>
    arrange(rate_mbit, rtt_ms, algorithm) |>
    write("utilisation")

  data$replicates |>
    pooled_loss() |>
    mutate(measured_percent = 100 * lost / offered) |>
    select(algorithm, loss_percent, rtt_ms, offered, lost, measured_percent, z) |>
    arrange(algorithm, loss_percent, rtt_ms) |>
    write("loss")

  goodput <- cells |>
    filter(block %in% c("response", "response-cubic"), metric == "goodput_mbit") |>
    select(all_of(condition_columns), n, measured = mean, low = mean_low, high = mean_high)
  goodput |>
    mutate(
      p = loss_percent / 100, rtt_s = rtt_ms / 1e3,
      model = response_mbit(algorithm, p, rtt_s),
      mathis = ifelse(algorithm == "reno", mathis_mbit(p, rtt_s), NA),
      ratio = measured / model
    ) |>
    select(algorithm, rtt_ms, loss_percent, n, model, mathis, measured, low, high, ratio) |>
    arrange(desc(algorithm), rtt_ms, loss_percent) |>
    write("response")

  cells |>
    filter(block == "fairness", metric == "jain_index") |>
    select(algorithm, n, mean, low = mean_low, high = mean_high, min) |>
    arrange(desc(algorithm)) |>
    write("fairness")

  cells |>
    filter(block == "queue", metric %in% c("queue_mean_bdp", "queue_mean_packets")) |>
    select(rate_mbit, rtt_ms, buffer_packets, algorithm, metric, mean) |>
    by_metric(c("queue_mean_bdp", "queue_mean_packets"), "mean") |>
    arrange(rate_mbit, algorithm) |>
    write("queue")

  write_size_ratios(data$replicates) |>
    write("write_size")

  data$replicates |>
    filter(valid, block %in% c("transfers", "aggregates", "after-pause")) |>
    derive_metrics() |>
    mutate(
      measured_ms = coalesce(1e3 * completion_s, response_median_ms),
      physics_ms = 1e3 * ifelse(
        size_kb > 0, transfer_s(size_kb, rate_mbit, rtt_ms),
        response_s(response_kb, rate_mbit, rtt_ms)
      ),
      size_kb = pmax(size_kb, response_kb)
    ) |>
    filter(!is.na(measured_ms)) |>
    group_by(block, size_kb, rate_mbit, rtt_ms) |>
    summarise(
      n = n(), physics_ms = mean(physics_ms), measured_ms = mean(measured_ms),
      least_excess = min(transfer_excess_packets), most_excess = max(transfer_excess_packets),
      .groups = "drop"
    ) |>
    arrange(match(block, c("transfers", "aggregates", "after-pause")), rate_mbit, size_kb) |>
    write("transfers")

  long <- filter(data$replicates, block == "bucket-long")
  bind_rows(
    shaper_ratios(long, "goodput_mbit"), shaper_ratios(long, "queue_mean_packets"),
    data$replicates |> filter(block == "bucket-short") |> shaper_ratios("completion_s")
  ) |>
    arrange(metric, desc(algorithm), rate_mbit, buffer_packets, size_kb) |>
    select(
      metric, algorithm, rate_mbit, buffer_packets, size_kb, n, with_bucket, with_link, ratio,
      low, high
    ) |>
    write("bucket")
}

# Compute the paired goodput ratio of small to large writes (equal seeds).
write_size_ratios <- function(replicates) {
  replicates |>
    filter(block == "write-size", valid) |>
    select(algorithm, loss_percent, replicate, write_kib, goodput_mbit, error_share) |>
    share_error(c("algorithm", "loss_percent")) |>
    mutate(size = ifelse(write_kib == min(write_kib), "small_mbit", "large_mbit")) |>
    select(-write_kib) |>
    tidyr::pivot_wider(names_from = size, values_from = goodput_mbit) |>
    with_columns(c("small_mbit", "large_mbit")) |>
    filter(!is.na(small_mbit), !is.na(large_mbit)) |>
    arrange(algorithm, loss_percent, replicate) |>
    group_by(algorithm, loss_percent) |>
    summarise(
      n = n(), tibble::as_tibble(ratio_interval(
        small_mbit, large_mbit, TRUE, level_of(min(error_share))
      )),
      small_mbit = mean(small_mbit), large_mbit = mean(large_mbit), .groups = "drop"
    ) |>
    with_columns(c("value", "low", "high")) |>
    select(algorithm, loss_percent, n, small_mbit, large_mbit, ratio = value, low, high) |>
    arrange(desc(algorithm), loss_percent)
}
