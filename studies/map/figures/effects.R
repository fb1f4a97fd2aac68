# Main effects and interactions of the factorial, as factors on the gain.
height_cm <- 8.5
shown <- function(cells) filter(cells, block == "published")

draw <- function(data) {
  effects <- gains(data$replicates) |>
    filter(block == "published") |>
    factorial_effects()

  ggplot(effects, aes(factor, reorder(effect, abs(log_factor)), colour = kind)) +
    geom_vline(xintercept = 1, colour = "grey60", linewidth = 0.4) +
    geom_segment(
      aes(x = 1, xend = factor, yend = reorder(effect, abs(log_factor))),
      linewidth = 1
    ) +
    geom_linerange(aes(xmin = low, xmax = high), linewidth = 0.4, colour = "grey20", na.rm = TRUE) +
    geom_point(size = 2.2) +
    scale_x_log10(breaks = c(0.2, 0.5, 1, 2, 5, 10, 20)) +
    scale_colour_manual(
      values = c(main = "#332288", interaction = "#CC79A7"),
      labels = c(main = "main effect", interaction = "interaction of two"),
      breaks = c("main", "interaction")
    ) +
    labs(x = "Factor on BBR's gain from low to high", y = NULL, colour = NULL) +
    theme_losslab()
}
