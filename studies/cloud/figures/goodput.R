# Goodput by added loss in both set-ups, and published.
height_cm <- 8.5
shown <- function(cells) filter(cells, block %in% c("published", "routers"))

draw <- function(data) {
  cells <- data$summary |>
    filter(
      block %in% c("published", "routers"), metric == "goodput_mbit",
      statistic_over == "replicates"
    ) |>
    mutate(setup = label_setups(sender_delay_ms), loss = label_losses(loss_percent))
  published <- data$published |>
    filter(from == "text", app == "iperf3", competitor == "none") |>
    mutate(loss = label_losses(loss_percent))

  ends <- line_ends(cells, "loss", "mean", "algorithm", "setup", log_y = TRUE)

  ggplot(cells, aes(loss, mean, colour = algorithm, shape = algorithm)) +
    geom_line(aes(group = algorithm), linewidth = 0.4) +
    geom_linerange(aes(ymin = mean_low, ymax = mean_high)) +
    geom_point(size = 2) +
    geom_point(
      aes(y = goodput_mbit, fill = "published"),
      data = published, shape = 4, size = 2.5, stroke = 0.9
    ) +
    facet_wrap(vars(setup)) +
    log_mbit() +
    algorithm_scales(data$algorithms)[c(1, 3, 4)] +
    name_lines(ends, "loss", "algorithm", \(name) label_algorithms(name, data$algorithms)) +
    scale_x_discrete(expand = expansion(add = c(0.5, 1.2))) +
    scale_fill_manual(values = c(published = "black"), name = NULL) +
    guides(fill = guide_legend(override.aes = list(colour = "black"))) +
    labs(x = "Added loss", y = metric_titles[["goodput_mbit"]]) +
    theme_losslab()
}
