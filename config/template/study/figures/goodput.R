# Goodput by loss.
height_cm <- 7

draw <- function(data) {
  cells <- data$summary |>
    filter(statistic_over == "replicates", metric == "goodput_mbit")

  ggplot(cells, aes(loss_percent, mean, colour = algorithm, shape = algorithm)) +
    geom_point() +
    # A line joins cells that differ only in their loss.
    geom_line(aes(group = sub("_loss[^_]*", "", cell))) +
    algorithm_scales(data$algorithms) +
    labs(x = "Loss (%)", y = "Goodput (Mbit/s)") +
    theme_losslab()
}
