# Goodput over loss: CUBIC, BBR, its successor and the worked example.
height_cm <- 7.5
shown <- function(cells) filter(cells, block == "successor")

draw <- function(data) {
  measured <- data$summary |>
    filter(block == "successor", metric == "goodput_mbit", statistic_over == "replicates")
  # Draw cells without loss at the left edge: a logarithmic axis has no zero.
  edge_percent <- 0.03

  measured <- mutate(measured, loss_percent = pmax(loss_percent, edge_percent))
  ends <- line_ends(measured, "loss_percent", "mean", "algorithm", log_y = TRUE, gap = 0.05)

  ggplot(measured, aes(loss_percent, mean, colour = algorithm)) +
    geom_line() +
    geom_linerange(aes(ymin = mean_low, ymax = mean_high), na.rm = TRUE) +
    geom_point(aes(shape = algorithm), size = 2) +
    scale_x_log10(
      breaks = c(edge_percent, 0.1, 0.5, 1, 2, 5, 10),
      labels = c("0", "0.1", "0.5", "1", "2", "5", "10"), expand = room_for_names(0.22)
    ) +
    name_lines(ends, "loss_percent", "algorithm", \(name) label_algorithms(name, data$algorithms)) +
    log_mbit() +
    algorithm_scales(data$algorithms) +
    labs(x = "Packet loss (%)", y = metric_titles[["goodput_mbit"]]) +
    theme_losslab()
}
