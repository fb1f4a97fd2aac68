# Congestion window over time at 0, 1 and 5 % loss, first replicate.
height_cm <- 13
shown <- function(cells) {
  filter(cells, block == "main", app == "iperf3", path == "symmetric", loss_percent %in% c(0, 1, 5))
}

draw <- function(data) {
  cwnd <- data$flows |>
    filter(path == "symmetric") |>
    mutate(loss = paste(loss_percent, "% loss"))

  ends <- line_ends(
    cwnd, "t_s", "cwnd_packets", "algorithm", "loss",
    log_y = TRUE, gap = 0.12
  )

  ggplot(cwnd, aes(t_s, cwnd_packets, colour = algorithm)) +
    geom_step(linewidth = 0.3) +
    facet_wrap(vars(loss), ncol = 1) +
    scale_y_log10() +
    algorithm_scales(data$algorithms) +
    name_lines(ends, "t_s", "algorithm", \(name) label_algorithms(name, data$algorithms)) +
    scale_x_continuous(expand = room_for_names(0.1)) +
    labs(x = "Time since the flow's start (s)", y = "Congestion window (packets)") +
    theme_losslab()
}
