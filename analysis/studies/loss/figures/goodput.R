# The source's slides 13 and 22, published and measured: mean and interquartile range.
height_cm <- 13
shown <- function(cells) filter(cells, block == "main", app == "iperf3")

draw <- function(data) {
  both <- bind_rows(
    measured = data$summary |>
      filter(
        block == "main", app == "iperf3", metric == "goodput_mbit", statistic_over == "seconds"
      ),
    published = data$published,
    .id = "whose"
  ) |>
    mutate(
      path = label_paths(path),
      whose = factor(whose, c("published", "measured"), c("Published", "Measured"))
    )
  if (all(both$whose == "Published")) {
    both <- both[0, ]
  }
  # Draw lower values at this floor: a logarithmic axis has no zero.
  floor_mbit <- 0.5
  ends <- both |>
    mutate(y = pmax(mean, floor_mbit)) |>
    line_ends("loss_percent", "y", "algorithm", c("whose", "path"), log_y = TRUE)

  ggplot(both, aes(loss_percent, pmax(mean, floor_mbit), colour = algorithm)) +
    geom_ribbon(
      aes(ymin = pmax(q25, floor_mbit), ymax = pmax(q75, floor_mbit), fill = algorithm),
      alpha = 0.25, colour = NA
    ) +
    geom_line() +
    geom_point(aes(shape = algorithm), size = 1.8) +
    facet_grid(vars(whose), vars(path)) +
    name_lines(ends, "loss_percent", "algorithm", \(name) label_algorithms(name, data$algorithms)) +
    scale_x_continuous(breaks = seq(0, 10, 2), expand = room_for_names()) +
    log_mbit() +
    algorithm_scales(data$algorithms) +
    labs(x = "Packet loss (%)", y = metric_titles[["goodput_mbit"]]) +
    theme_losslab()
}
