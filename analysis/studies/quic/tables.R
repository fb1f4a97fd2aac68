# Goodput, queue and losses of both stacks, and paired ratios.
tables <- function(data, write) {
  shown <- c("goodput_mbit", "queue_mean_packets", "retransmits")
  data$summary |>
    filter(statistic_over == "replicates", metric %in% shown) |>
    select(block, buffer_packets, loss_percent, algorithm, app, n, metric, mean) |>
    by_metric(shown, "mean") |>
    arrange(buffer_packets, loss_percent, algorithm, app) |>
    write("goodput")

  stack_ratios(stack_pairs(data$replicates)) |>
    select(
      block, buffer_packets, loss_percent, algorithm, n, mean_tcp, mean_quic, ratio, low, high
    ) |>
    write("ratio")
}
