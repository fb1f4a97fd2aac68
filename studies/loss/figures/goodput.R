# The source's slides 13 and 22: mean and interquartile range here, and the source's means and
# quartiles in the same panels; below, the ratio of the means.
height_cm <- 9
shown <- function(cells) filter(cells, block == "main", app == "iperf3")

draw <- function(data) {
  measured <- shown(data$summary) |>
    filter(metric == "goodput_mbit", statistic_over == "seconds") |>
    mutate(path = label_paths(path))
  published <- data$published |>
    mutate(path = label_paths(path)) |>
    semi_join(measured, by = c("algorithm", "path"))
  # Draw lower values at this floor: a logarithmic axis has no zero.
  floor_mbit <- 0.5
  ends <- measured |>
    mutate(y = pmax(mean, floor_mbit)) |>
    line_ends("loss_percent", "y", "algorithm", "path", log_y = TRUE)
  ratios <- measured |>
    inner_join(
      select(published, algorithm, path, loss_percent, theirs = mean),
      by = c("algorithm", "path", "loss_percent")
    ) |>
    mutate(ratio = mean / theirs)
  beside <- position_nudge(0.15)
  x <- scale_x_continuous(breaks = seq(0, 10, 2), expand = room_for_names())

  goodput <- ggplot(measured, aes(loss_percent, pmax(mean, floor_mbit), colour = algorithm)) +
    geom_ribbon(
      aes(ymin = pmax(q25, floor_mbit), ymax = pmax(q75, floor_mbit), fill = algorithm),
      alpha = 0.25, colour = NA
    ) +
    geom_line() +
    geom_linerange(
      aes(ymin = pmax(q25, floor_mbit), ymax = pmax(q75, floor_mbit)),
      data = published, position = beside, linewidth = 0.3
    ) +
    geom_point(data = published, position = beside, shape = 4, size = 1.6) +
    facet_wrap(vars(path)) +
    name_lines(ends, "loss_percent", "algorithm", \(name) label_algorithms(name, data$algorithms)) +
    x +
    log_mbit() +
    algorithm_scales(data$algorithms) +
    labs(x = NULL, y = metric_titles[["goodput_mbit"]]) +
    theme_losslab()
  over <- ggplot(ratios, aes(loss_percent, ratio, colour = algorithm)) +
    annotate("rect", xmin = -Inf, xmax = Inf, ymin = 1 / 1.25, ymax = 1.25, fill = "grey90") +
    geom_hline(yintercept = 1, colour = "grey40", linewidth = 0.25) +
    geom_point(aes(shape = algorithm), size = 1.6) +
    facet_wrap(vars(path)) +
    x +
    scale_y_log10(breaks = c(0.8, 1, 1.25)) +
    algorithm_scales(data$algorithms) +
    labs(x = "Packet loss (%)", y = "Ours / published") +
    theme_losslab() +
    theme(strip.text = element_blank(), legend.position = "none")
  patchwork::wrap_plots(goodput, over, ncol = 1, heights = c(2.6, 1))
}
