# Goodput, queue and losses of both stacks, and paired ratios.
tables <- function(data, write) {
  shown <- c("goodput_mbit", "queue_mean_packets", "retransmits")
  data$summary |>
    filter(block != "stacks", statistic_over == "replicates", metric %in% shown) |>
    select(block, buffer_packets, loss_percent, algorithm, app, n, metric, mean) |>
    by_metric(shown, "mean") |>
    arrange(buffer_packets, loss_percent, algorithm, app) |>
    write("goodput")

  stack_ratios(stack_pairs(data$replicates)) |>
    select(
      block, buffer_packets, loss_percent, algorithm, n, mean_tcp, mean_quic, ratio, low, high
    ) |>
    write("ratio")

  # Goodput, queue and drops of each stack, alone and beside the kernel's CUBIC.
  measured <- c("goodput_mbit", "flows_goodput_mbit", "queue_mean_packets", "bottleneck_drops")
  data$summary |>
    filter(block == "stacks", statistic_over == "replicates", metric %in% measured) |>
    with_stacks() |>
    select(
      stack, algorithm, loss_percent, flows, n, metric, mean,
      low = mean_low, high = mean_high
    ) |>
    by_metric(measured, c("mean", "low", "high")) |>
    select(
      stack, algorithm, loss_percent, flows, n,
      goodput_mbit = mean_goodput_mbit, low = low_goodput_mbit, high = high_goodput_mbit,
      flows_goodput_mbit = mean_flows_goodput_mbit, queue_mean_packets = mean_queue_mean_packets,
      bottleneck_drops = mean_bottleneck_drops
    ) |>
    arrange(loss_percent, flows, algorithm, stack) |>
    write("stacks")
}
