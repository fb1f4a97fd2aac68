# Goodput over the rate of the path, by algorithm, queue and loss: the lowest, median and highest of
# the grid's paths.
tables <- function(data, write) {
  data$summary |>
    filter(statistic_over == "replicates", metric == "goodput_mbit", block == "grid") |>
    mutate(share = mean / rate_mbit) |>
    group_by(algorithm, queue, loss_percent) |>
    summarise(
      paths = n(), low = min(share), median = stats::median(share), high = max(share),
      .groups = "drop"
    ) |>
    arrange(queue, loss_percent, algorithm) |>
    write("goodput")
}
