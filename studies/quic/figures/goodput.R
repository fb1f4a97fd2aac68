# Goodput by loss, a panel per stack.
height_cm <- 6.3
shown <- function(cells) filter(cells, block == "loss")

draw <- function(data) {
  measured <- data$summary |>
    filter(block == "loss", metric == "goodput_mbit", statistic_over == "replicates") |>
    mutate(stack = factor(stack_labels[app], stack_labels))
  # Draw cells without loss at the left edge: a logarithmic axis has no zero.
  edge_percent <- 0.03

  measured <- mutate(measured, loss_percent = pmax(loss_percent, edge_percent))
  ends <- line_ends(measured, "loss_percent", "mean", "algorithm", "stack")

  ggplot(measured, aes(loss_percent, mean, colour = algorithm)) +
    geom_line() +
    geom_linerange(aes(ymin = mean_low, ymax = mean_high), na.rm = TRUE) +
    geom_point(aes(shape = algorithm), size = 2) +
    facet_wrap(vars(stack)) +
    scale_x_log10(
      breaks = c(edge_percent, 0.1, 1), labels = c("0", "0.1", "1"), expand = room_for_names()
    ) +
    name_lines(ends, "loss_percent", "algorithm", \(name) label_algorithms(name, data$algorithms)) +
    scale_y_continuous(limits = c(0, NA)) +
    algorithm_scales(data$algorithms) +
    labs(x = "Packet loss (%)", y = metric_titles[["goodput_mbit"]]) +
    theme_losslab() +
    theme(panel.spacing.x = unit(8, "mm"))
}
