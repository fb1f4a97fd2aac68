# Goodput over loss: quartiles of one-second intervals, means, and the published means.
height_cm <- 9
shown <- function(cells) filter(cells, block == "main", app == "iperf3")

draw <- function(data) {
  measured <- data$summary |>
    filter(
      block == "main", app == "iperf3", metric == "goodput_mbit", statistic_over == "seconds"
    ) |>
    mutate(path = label_paths(path))
  published <- data$published |> mutate(path = label_paths(path))
  # A logarithm has no zero; an interval in which nothing arrived is drawn at this floor.
  floor_mbit <- 0.5

  ggplot(measured, aes(loss_percent, pmax(mean, floor_mbit), colour = algorithm)) +
    geom_ribbon(
      aes(ymin = pmax(q25, floor_mbit), ymax = pmax(q75, floor_mbit), fill = algorithm),
      alpha = 0.2, colour = NA
    ) +
    geom_line(aes(linetype = "measured")) +
    geom_point(aes(shape = algorithm), size = 1.8) +
    geom_line(aes(y = mean, linetype = "published"), data = published) +
    facet_wrap(vars(path)) +
    scale_x_continuous(breaks = seq(0, 10, 2)) +
    scale_linetype_manual(values = c(measured = "solid", published = "22")) +
    log_mbit() +
    algorithm_scales(data$algorithms) +
    labs(x = "Packet loss (%)", y = "Goodput (Mbit/s)", linetype = NULL) +
    theme_losslab()
}
