# Exercise C: the power of each delay threshold.
height_cm <- 7.5
shown <- function(cells) filter(cells, block == "threshold")

draw <- function(data) {
  ours <- scheme_scores(data$summary) |>
    filter(block == "threshold") |>
    mutate(threshold_ms = scheme_parameter(scheme, "threshold_ms"))
  theirs <- source_runs(data$published) |>
    filter(exercise == "C") |>
    mutate(threshold_ms = scheme_parameter(scheme, "threshold_ms"))

  ggplot(ours, aes(threshold_ms, mean_power)) +
    geom_ribbon(aes(ymin = low_power, ymax = high_power), fill = "#0072B2", alpha = 0.2) +
    geom_line(colour = "#0072B2", linewidth = 0.5) +
    geom_point(aes(shape = "ours"), colour = "#0072B2", size = 1.8) +
    geom_point(aes(y = quotient, shape = "published"), data = theirs, size = 2.2, stroke = 0.8) +
    scale_shape_manual(values = c(ours = 16, published = 4), name = NULL) +
    scale_y_continuous(limits = c(0, NA)) +
    labs(x = "Threshold of the RTT (ms)", y = metric_titles[["power"]]) +
    theme_losslab()
}
