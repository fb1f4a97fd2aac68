# Congestion window over time at 0, 1 and 5 % loss, first replicate.
height_cm <- 13
shown <- function(cells) {
  filter(cells, block == "main", app == "iperf3", path == "symmetric", loss_percent %in% c(0, 1, 5))
}

draw <- function(data) {
  cwnd <- data$flows |>
    filter(path == "symmetric") |>
    mutate(loss = paste(loss_percent, "% loss"))

  ggplot(cwnd, aes(t_s, cwnd_packets, colour = algorithm)) +
    geom_step(linewidth = 0.3) +
    facet_wrap(vars(loss), ncol = 1) +
    scale_y_log10() +
    algorithm_scales(data$algorithms) +
    guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
    labs(x = "Time since the flow's start (s)", y = "Congestion window (packets)") +
    theme_losslab()
}
