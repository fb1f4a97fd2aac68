# CUBIC's window, and its formula for each growth phase.
height_cm <- 11
shown <- function(cells) filter(cells, block == "long", algorithm == "cubic")

draw <- function(data) {
  # Show the first minute only: a hundred phases would be unreadable.
  shown_s <- 60
  flows <- data$flows |>
    filter(block == "long", algorithm == "cubic", t_s <= shown_s) |>
    mutate(buffer = label_buffers(buffer_packets))
  phases <- all_phases(data$flows) |>
    filter(algorithm == "cubic", end_s <= shown_s)
  formula <- bind_rows(lapply(seq_len(nrow(phases)), function(i) {
    growth <- phases[i, ]
    t <- seq(0, growth$end_s - growth$start_s, length.out = 40)
    tibble::tibble(
      phase = i, buffer_packets = growth$buffer_packets, t_s = growth$start_s + t,
      cwnd_packets = cubic_window(t, growth$w_max, growth$k_s)
    )
  }))
  lines <- c("measured" = "#0072B2", "W(t)" = "#D55E00")

  figure <- ggplot(flows, aes(t_s, cwnd_packets)) +
    geom_step(aes(colour = "measured"), linewidth = 0.4)
  if (nrow(formula) > 0) {
    formula <- mutate(
      formula,
      buffer = factor(paste(buffer_packets, "packets"), levels(flows$buffer))
    )
    figure <- figure +
      geom_line(aes(colour = "W(t)", group = phase), data = formula, linewidth = 0.6)
  }
  figure +
    facet_wrap(vars(buffer), ncol = 1, scales = "free_y") +
    scale_colour_manual(values = lines, breaks = names(lines)) +
    guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
    labs(x = "Time since the flow's start (s)", y = "Congestion window (packets)", colour = NULL) +
    theme_losslab()
}
