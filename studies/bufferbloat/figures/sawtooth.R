# Congestion window of a long-lived flow and its queue, with a small and a large buffer.
height_cm <- 13
shown <- function(cells) filter(cells, block == "long")

draw <- function(data) {
  flows <- data$flows |>
    filter(block == "long") |>
    select(algorithm, buffer_packets, t_s, packets = cwnd_packets)
  queue <- data$queue |>
    filter(block == "long") |>
    select(algorithm, buffer_packets, t_s, packets = backlog_packets)
  panels <- c(cwnd = "Congestion window", queue = "Queue occupancy")
  samples <- bind_rows(cwnd = flows, queue = queue, .id = "what") |>
    mutate(
      what = factor(panels[what], levels = panels),
      buffer = label_buffers(buffer_packets),
      label = label_algorithms(algorithm, data$algorithms)
    )

  ggplot(samples, aes(t_s, packets, colour = what)) +
    geom_step(linewidth = 0.3) +
    facet_grid(rows = vars(label), cols = vars(buffer), scales = "free_y") +
    scale_colour_manual(values = setNames(c("#333333", "#CC79A7"), panels)) +
    guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
    labs(x = "Time since the flow's start (s)", y = "Packets", colour = NULL) +
    theme_losslab()
}
