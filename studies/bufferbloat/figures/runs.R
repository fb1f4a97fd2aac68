# Start and duration of each download, and the long-lived flow's queue at that time.
height_cm <- 12
shown <- function(cells) {
  filter(cells, block == "web", competitor != "none", buffer_packets == 100)
}

draw <- function(data) {
  panels <- c("Download (s)", "Queue (packets)")
  runs <- web_runs(data$replicates) |>
    filter(block == "web", load == "loaded", buffer_packets == 100, !is.na(fetch_started_s)) |>
    transmute(algorithm, t_s = fetch_started_s, value = download_s, panel = panels[1])
  if (nrow(runs) == 0) {
    return(ggplot(runs))
  }
  reach <- range(runs$t_s) + c(-2, max(runs$value))
  queue <- data$queue |>
    filter(
      block == "web", competitor != "none", buffer_packets == 100,
      t_s >= reach[1], t_s <= reach[2]
    ) |>
    transmute(algorithm, t_s, value = backlog_packets, panel = panels[2])

  ggplot(runs, aes(t_s, value, colour = algorithm)) +
    geom_step(data = queue, linewidth = 0.4) +
    geom_segment(aes(xend = t_s + value, yend = value), alpha = 0.35, linewidth = 0.4) +
    geom_point(aes(shape = algorithm), size = 1.8) +
    facet_grid(
      rows = vars(factor(panel, panels)), cols = vars(label_algorithms(algorithm, data$algorithms)),
      scales = "free_y", switch = "y"
    ) +
    expand_limits(y = 0) +
    algorithm_scales(data$algorithms) +
    labs(x = "Time since the long flow's start (s)", y = NULL) +
    theme_losslab() +
    theme(strip.placement = "outside", legend.position = "none")
}
