# Exercise B, left: TCP's parameters, each varied alone.
height_cm <- 7.5
shown <- function(cells) filter(cells, block %in% c("aimd", "aimd-single"))

draw <- function(data) {
  scores <- filter(scheme_scores(data$summary), block %in% c("aimd", "aimd-single"))
  in_words <- function(points) {
    mutate(points, panel = factor(single_parameters[parameter], single_parameters))
  }
  ours <- inner_join(single_points(scores$scheme), scores, by = "scheme") |> in_words()
  theirs <- source_runs(data$published) |>
    filter(exercise == "B", grepl("^single", part)) |>
    mutate(parameter = sub("single ", "", part)) |>
    inner_join(single_points(data$published$scheme), by = c("scheme", "parameter")) |>
    in_words()

  ggplot(ours, aes(value, mean_power)) +
    geom_linerange(aes(ymin = low_power, ymax = high_power), colour = "#0072B2", alpha = 0.4) +
    geom_line(colour = "#0072B2", linewidth = 0.5) +
    geom_point(aes(shape = "ours"), colour = "#0072B2", size = 1.8) +
    geom_point(aes(y = quotient, shape = "published"), data = theirs, size = 2.2, stroke = 0.8) +
    facet_wrap(vars(panel), nrow = 1, scales = "free_x") +
    scale_shape_manual(values = c(ours = 16, published = 4), name = NULL) +
    scale_x_continuous(
      breaks = \(limits) pretty(limits, 2), labels = scales::label_number(drop0trailing = TRUE),
      guide = guide_axis(check.overlap = TRUE)
    ) +
    expand_limits(y = 0) +
    labs(x = "Value of the one parameter that is not TCP's", y = metric_titles[["power"]]) +
    theme_losslab()
}
