# The source's log of iperf3, and our BBR per second in its four conditions of 30 Mbit/s and 15 ms.
height_cm <- 8.5
shown <- function(cells) {
  filter(cells, block == "published", algorithm == "bbr", rate_mbit == 30, rtt_ms == 15)
}

draw <- function(data) {
  ours <- data$intervals |>
    filter(block == "published", algorithm == "bbr", rate_mbit == 30, rtt_ms == 15) |>
    group_by(buffer_packets, loss_percent, t_s) |>
    summarise(goodput_mbit = mean(goodput_mbit), .groups = "drop") |>
    mutate(condition = paste0(short_bytes(buffer_packets), ", ", loss_percent, " % loss"))
  log <- data$published |>
    filter(source == "kim (log)", to_s - from_s <= 1)

  ends <- line_ends(ours, "t_s", "goodput_mbit", "condition", gap = 0.06)

  ggplot(ours, aes(t_s, goodput_mbit)) +
    geom_line(aes(colour = condition), linewidth = 0.4) +
    geom_point(aes(colour = condition), size = 1.4) +
    geom_point(aes(x = to_s, shape = "published log"), data = log, size = 2.2, stroke = 0.8) +
    scale_colour_viridis_d(end = 0.85) +
    scale_shape_manual(values = 4, name = NULL) +
    scale_x_continuous(breaks = seq(0, 10, 2), expand = room_for_names(0.32)) +
    name_lines(ends, "t_s", "condition") +
    guides(shape = guide_legend()) +
    labs(x = "End of the interval (s)", y = metric_titles[["goodput_mbit"]]) +
    theme_losslab()
}
