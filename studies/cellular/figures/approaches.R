# Exercise D: the best of every kind, beside the source's, and the kernel's algorithms. Left:
# throughput over signal delay of the schemes that the source has; right: power.
height_cm <- 6.6
shown <- function(cells) filter(cells, block != "grid")

draw <- function(data) {
  drawn <- best_of_each(filter(scheme_scores(data$summary), block != "grid"))
  own_trace <- best_of_each(scheme_scores(data$summary, "source-trace"))
  other_trace <- best_of_each(scheme_scores(data$summary, "other-trace"))
  theirs <- source_runs(data$published) |>
    mutate(label = label_schemes(scheme, "", "")) |>
    group_by(label) |>
    slice_max(quotient, n = 1, with_ties = FALSE) |>
    ungroup() |>
    transmute(
      label, mean_power = quotient, mean_throughput = throughput_mbit,
      mean_signal_delay = signal_delay_p95_ms
    ) |>
    filter(label %in% drawn$label)
  sources <- c("published", "source's trace", "another operator's", "drawn traces")
  every <- bind_rows(
    "published" = theirs, "source's trace" = own_trace, "another operator's" = other_trace,
    "drawn traces" = drawn, .id = "whose"
  ) |>
    mutate(whose = factor(whose, sources), label = reorder(label, mean_power))
  colours <- scale_colour_manual(
    values = stats::setNames(c("black", "#0072B2", "#D55E00", "grey55"), sources), name = NULL
  )
  shapes <- scale_shape_manual(values = stats::setNames(c(4, 16, 17, 1), sources), name = NULL)
  # The source's trace, if it was measured, or else the drawn ones.
  ours <- if (nrow(own_trace) > 0) "source's trace" else "drawn traces"
  plane <- filter(every, whose %in% c("published", ours), label %in% theirs$label)
  # Names in a column beside the points, with lines to them: points may be close to one another.
  named <- filter(plane, whose == ours) |>
    mutate(
      name_x = 1.12 * max(plane$mean_signal_delay),
      name_y = spaced(mean_throughput, 0.075 * max(plane$mean_throughput))
    )

  over_delay <- ggplot(plane, aes(mean_signal_delay, mean_throughput)) +
    geom_line(aes(group = label), colour = "grey75", linewidth = 0.4) +
    geom_point(aes(colour = whose, shape = whose), size = 1.8) +
    geom_segment(
      aes(xend = name_x, yend = name_y),
      data = named, colour = "grey75", linewidth = 0.3, linetype = "dotted"
    ) +
    geom_text(aes(1.02 * name_x, name_y, label = label), data = named, size = 2.4, hjust = 0) +
    scale_x_log10(breaks = c(50, 100, 200, 500), expand = expansion(c(0.1, 0.85))) +
    scale_y_continuous(limits = c(0, NA), expand = expansion(c(0.05, 0.12))) +
    labs(x = metric_titles[["signal_delay_p95_ms"]], y = metric_titles[["throughput_mbit"]])
  ranking <- ggplot(every, aes(mean_power, label, colour = whose, shape = whose)) +
    geom_linerange(
      aes(xmin = low_power, xmax = high_power),
      alpha = 0.4, na.rm = TRUE, show.legend = FALSE
    ) +
    geom_point(size = 1.8) +
    scale_x_continuous(limits = c(0, NA)) +
    labs(x = metric_titles[["power"]], y = NULL)
  together <- lapply(list(over_delay, ranking), \(part) part + colours + shapes + theme_losslab())
  together[[1]] <- together[[1]] + guides(colour = "none", shape = "none")
  patchwork::wrap_plots(together, widths = c(1, 1), guides = "collect") &
    theme(legend.position = "top")
}
