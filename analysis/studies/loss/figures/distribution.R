# Distributions of one-second goodput without loss and at 1 %.
height_cm <- 7.5
shown <- function(cells) filter(cells, block == "main", app == "iperf3", loss_percent %in% c(0, 1))

draw <- function(data) {
  seconds <- data$intervals |>
    filter(block == "main", loss_percent %in% c(0, 1)) |>
    mutate(path = label_paths(path), loss = factor(paste(loss_percent, "% loss")))

  ggplot(seconds, aes(goodput_mbit, loss, colour = algorithm, fill = algorithm)) +
    geom_boxplot(alpha = 0.2, outlier.shape = NA, width = 0.6, position = position_dodge(0.7)) +
    geom_point(
      aes(shape = algorithm),
      size = 0.9, alpha = 0.6,
      position = position_jitterdodge(jitter.width = 0.15, dodge.width = 0.7, seed = 1)
    ) +
    facet_wrap(vars(path)) +
    scale_x_continuous(limits = c(0, 1000)) +
    algorithm_scales(data$algorithms) +
    labs(x = "Goodput of one-second intervals (Mbit/s)", y = NULL) +
    theme_losslab()
}
