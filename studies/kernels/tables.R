# Other kernels over 6.12, BBR's successor alone and beside others, and general AIMD's formula.
tables <- function(data, write) {
  kernel_ratios(kernel_pairs(data$replicates)) |>
    select(
      block, algorithm, kernel, rate_mbit, rtt_ms, buffer_packets, loss_percent, n,
      mean_reference, mean_value, ratio, low, high
    ) |>
    write("ratio")

  cells <- data$summary |>
    filter(statistic_over == "replicates")

  cells |>
    filter(block == "successor", metric == "goodput_mbit") |>
    select(algorithm, loss_percent, n, mean, low = mean_low, high = mean_high) |>
    arrange(loss_percent, algorithm) |>
    write("successor")

  shown <- c("goodput_mbit", "queue_mean_packets", "rtt_loaded_ms", "retransmits")
  cells |>
    filter(block == "standing", metric %in% shown) |>
    select(rate_mbit, rtt_ms, buffer_packets, algorithm, n, metric, mean) |>
    by_metric(shown, "mean") |>
    arrange(rate_mbit, rtt_ms, algorithm) |>
    write("standing")

  beside_flows(cells) |>
    select(
      algorithm, beside, started, buffer_packets, n, goodput_mbit = mean, low = mean_low,
      high = mean_high
    ) |>
    arrange(buffer_packets, algorithm, beside, started) |>
    write("beside")

  cells |>
    filter(block == "response", metric == "goodput_mbit") |>
    mutate(
      model = response_mbit(algorithm, loss_percent / 100, rtt_ms / 1e3), ratio = mean / model
    ) |>
    select(
      algorithm, rtt_ms, loss_percent, n, model, measured = mean, low = mean_low,
      high = mean_high, ratio
    ) |>
    arrange(rtt_ms, loss_percent) |>
    write("response")
}
