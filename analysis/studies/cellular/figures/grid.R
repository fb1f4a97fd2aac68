# The grid search: power over the winner's three parameters.
height_cm <- 8.5
shown <- function(cells) filter(cells, block %in% c("grid", "ewma"))

draw <- function(data) {
  scores <- scheme_scores(data$summary)
  cells <- scores |>
    filter(block %in% c("grid", "ewma")) |>
    mutate(
      alpha = scheme_parameter(scheme, "alpha"), scale = scheme_parameter(scheme, "scale"),
      timeout = paste("timeout", scheme_parameter(scheme, "timeout"), "ms"),
      theirs = scheme == "ewma,alpha=0.9,scale=1.5,timeout=75"
    ) |>
    mutate(
      timeout = factor(timeout, unique(timeout[order(scheme_parameter(scheme, "timeout"))])),
      best = mean_power == max(mean_power)
    )

  ggplot(cells, aes(factor(alpha), factor(scale), fill = mean_power)) +
    geom_tile(colour = "white", linewidth = 0.5) +
    geom_tile(data = filter(cells, theirs), fill = NA, colour = "black", linewidth = 0.7) +
    geom_text(
      aes(label = formatC(mean_power, format = "f", digits = 1), fontface = ifelse(best, 2, 1)),
      size = 2.7
    ) +
    facet_wrap(vars(timeout)) +
    scale_fill_gradient(low = "grey97", high = "#D55E00") +
    labs(
      x = "Weight of the newest rate, alpha", y = "Window scale, w", fill = "Power"
    ) +
    theme_losslab() +
    theme(panel.grid = element_blank())
}
