# First page: goodput by random loss, ours (lines) and published (crosses).
height_cm <- 3.4
width_cm <- 7.5
shown <- function(cells) filter(cells, block == "main", app == "iperf3", path == "symmetric")

draw <- function(data) {
  goodput <- shown(data$summary) |>
    filter(metric == "goodput_mbit", statistic_over == "replicates")
  ends <- line_ends(goodput, "loss_percent", "mean", "algorithm", also = 0)
  ggplot(goodput, aes(loss_percent, mean, colour = algorithm)) +
    geom_line(linewidth = 0.7) +
    geom_point(
      data = filter(data$published, path == "symmetric"), shape = 4, size = 1.1, stroke = 0.6
    ) +
    name_lines(
      ends, "loss_percent", "algorithm", \(name) label_algorithms(name, data$algorithms)
    ) +
    scale_x_continuous(breaks = c(0, 1, 5, 10), expand = room_for_names(0.3)) +
    scale_y_continuous(limits = c(0, NA)) +
    algorithm_scales(data$algorithms) +
    labs(x = "Packet loss (%); crosses: published", y = "Mbit/s") +
    theme_finding()
}
