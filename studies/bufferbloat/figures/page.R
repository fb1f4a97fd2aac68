# Congestion window of the page's connection beside a long-lived flow.
height_cm <- 7.5
shown <- function(cells) filter(cells, block == "web", competitor != "none")

draw <- function(data) {
  page <- data$flows |>
    filter(block == "web", flow == "web", competitor != "none") |>
    group_by(cell) |>
    mutate(t_s = t_s - min(t_s)) |>
    ungroup() |>
    mutate(buffer = label_buffers(buffer_packets))

  ends <- line_ends(page, "t_s", "cwnd_packets", "algorithm", "buffer")

  ggplot(page, aes(t_s, cwnd_packets, colour = algorithm)) +
    geom_step(linewidth = 0.5) +
    facet_wrap(vars(buffer)) +
    algorithm_scales(data$algorithms) +
    name_lines(ends, "t_s", "algorithm", \(name) label_algorithms(name, data$algorithms)) +
    scale_x_continuous(expand = room_for_names()) +
    labs(x = "Time since the connection was made (s)", y = "Congestion window (packets)") +
    theme_losslab()
}
