# Video metrics by loss.
height_cm <- 17
shown <- function(cells) filter(cells, block == "main", app == "ffmpeg")

draw <- function(data) {
  titles <- metric_titles[
    c("time_to_first_frame_s", "stall_s", "frames_on_time_percent", "completion_s")
  ]
  video <- data$summary |>
    filter(
      block == "main", app == "ffmpeg", statistic_over == "replicates",
      metric %in% names(titles)
    ) |>
    mutate(
      path = label_paths(path),
      metric = factor(titles[metric], levels = titles)
    )

  ends <- line_ends(
    video, "loss_percent", "mean", "algorithm", c("metric", "path"),
    gap = 0.14, axis_of = "metric", also = 0
  )

  ggplot(video, aes(loss_percent, mean, colour = algorithm)) +
    geom_linerange(aes(ymin = min, ymax = max), alpha = 0.4, position = position_dodge(0.3)) +
    geom_line(position = position_dodge(0.3)) +
    geom_point(aes(shape = algorithm), size = 1.5, position = position_dodge(0.3)) +
    facet_grid(vars(metric), vars(path), scales = "free_y", switch = "y") +
    name_lines(ends, "loss_percent", "algorithm", \(name) label_algorithms(name, data$algorithms)) +
    scale_x_continuous(breaks = seq(0, 10, 2), expand = room_for_names()) +
    expand_limits(y = 0) +
    algorithm_scales(data$algorithms) +
    labs(x = "Packet loss (%)", y = NULL) +
    theme_losslab() +
    theme(strip.placement = "outside", strip.text.y.left = element_text(angle = 90, hjust = 0.5))
}
