# Exercise D: power in the source's searches over the winner's parameters, published and ours.
height_cm <- function(data) if (any(data$cells$block == "grid", na.rm = TRUE)) 12 else 7.5
shown <- function(cells) filter(cells, block %in% c("grid", "ewma"))

draw <- function(data) {
  ours <- scheme_scores(data$summary) |>
    filter(block %in% c("grid", "ewma")) |>
    transmute(scheme, power = mean_power, whose = "Ours")
  theirs <- source_runs(data$published) |>
    filter(exercise == "D", grepl("^ewma", scheme)) |>
    group_by(scheme) |>
    summarise(power = mean(quotient), .groups = "drop") |>
    mutate(whose = "Published")
  if (nrow(ours) == 0) {
    return(ggplot(ours))
  }
  cells <- bind_rows(theirs, ours) |>
    mutate(
      alpha = scheme_parameter(scheme, "alpha"), scale = scheme_parameter(scheme, "scale"),
      timeout_ms = scheme_parameter(scheme, "timeout"),
      timeout = factor(
        paste(timeout_ms, "ms"), paste(sort(unique(timeout_ms)), "ms")
      ),
      whose = factor(whose, c("Published", "Ours"))
    ) |>
    group_by(whose) |>
    mutate(best = power == max(power)) |>
    ungroup()

  ggplot(cells, aes(factor(alpha), factor(scale), fill = power)) +
    geom_tile(colour = "white", linewidth = 0.5) +
    geom_text(
      aes(
        label = formatC(power, format = "f", digits = 0), fontface = ifelse(best, 2, 1)
      ),
      size = 2.7
    ) +
    facet_grid(rows = vars(whose), cols = vars(timeout), scales = "free_x", space = "free_x") +
    scale_fill_gradient(low = "grey97", high = "#D55E00") +
    labs(
      x = "Weight of the newest rate, alpha; above, the timeout", y = "Window scale, w",
      fill = "Power"
    ) +
    theme_losslab() +
    theme(panel.grid = element_blank())
}
