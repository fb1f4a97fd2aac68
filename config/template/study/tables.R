# Mean goodput of each cell.
tables <- function(data, write) {
  data$summary |>
    filter(statistic_over == "replicates", metric == "goodput_mbit") |>
    select(algorithm, loss_percent, n, mean, low = mean_low, high = mean_high) |>
    write("goodput")
}
