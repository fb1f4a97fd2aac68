# Exercise D: throughput over signal delay, the best of every kind and the kernel's algorithms.
# Small crosses: all of the source's runs. Schemes of longer delays are in the ranking only.
height_cm <- 9.5
longest_ms <- 2000
shown <- function(cells) filter(cells, block != "grid")

draw <- function(data) {
  scores <- scheme_scores(data$summary)
  published <- data$published
  best <- best_of_each(filter(scores, block != "grid")) |>
    arrange(desc(mean_power)) |>
    mutate(number = row_number(), name = paste0(label, "  ", number))
  theirs <- source_runs(published) |>
    mutate(label = label_schemes(scheme, "", ""), power = quotient) |>
    group_by(label) |>
    slice_max(power, n = 1, with_ties = FALSE) |>
    ungroup() |>
    inner_join(select(best, label, name, number), by = "label")
  near <- filter(best, mean_signal_delay <= longest_ms)
  side <- function(x, y) {
    label_side(log(x), y, log(theirs$signal_delay_p95_ms), theirs$throughput_mbit)
  }
  # All of the source's runs, as in its own figures.
  every <- source_runs(published)
  powers <- c(5, 10, 20, 40)
  # Points of equal power lie on a straight line through the origin, a curve over logarithms.
  highest <- 1.15 * max(best$high_throughput, theirs$throughput_mbit, na.rm = TRUE)
  lines <- tidyr::expand_grid(power = powers, delay = 10^seq(1.6, 3.8, by = 0.02)) |>
    mutate(throughput = power * delay / 1000) |>
    filter(throughput <= highest, delay <= 1.15 * max(near$mean_signal_delay))
  shapes <- scale_shape_manual(values = c(ours = 16, published = 4), name = NULL)

  plane <- ggplot(near, aes(mean_signal_delay, mean_throughput)) +
    geom_line(
      aes(delay, throughput, group = power),
      data = lines, colour = "grey85", linewidth = 0.4
    ) +
    geom_text(
      aes(delay, throughput, label = power),
      data = slice_max(group_by(lines, power), throughput, n = 1, with_ties = FALSE),
      size = 2.3, colour = "grey55", vjust = -0.4
    ) +
    geom_point(
      aes(signal_delay_p95_ms, throughput_mbit),
      data = every, shape = 4, size = 0.7, stroke = 0.3, colour = "grey55"
    ) +
    geom_linerange(
      aes(ymin = low_throughput, ymax = high_throughput), colour = "#0072B2", alpha = 0.3
    ) +
    geom_linerange(
      aes(xmin = low_signal_delay, xmax = high_signal_delay), colour = "#0072B2", alpha = 0.3
    ) +
    geom_point(
      aes(signal_delay_p95_ms, throughput_mbit, shape = "published"),
      data = theirs, size = 2, stroke = 0.8
    ) +
    geom_text(
      aes(signal_delay_p95_ms, throughput_mbit, label = number),
      data = theirs, size = 2.5, nudge_x = 0.08
    ) +
    geom_point(aes(shape = "ours"), colour = "#0072B2", size = 1.2) +
    geom_text(
      aes(
        label = number,
        hjust = side(mean_signal_delay, mean_throughput)$hjust,
        vjust = side(mean_signal_delay, mean_throughput)$vjust
      ),
      size = 3, colour = "#0072B2", fontface = "bold"
    ) +
    shapes +
    scale_x_log10(breaks = c(50, 100, 200, 500, 1000, 2000)) +
    labs(x = metric_titles[["signal_delay_p95_ms"]], y = metric_titles[["throughput_mbit"]]) +
    theme_losslab()

  ranking <- ggplot(best, aes(mean_power, reorder(name, -number))) +
    geom_linerange(aes(xmin = low_power, xmax = high_power), colour = "#0072B2") +
    geom_point(colour = "#0072B2", size = 1.8) +
    geom_point(aes(power), data = theirs, shape = 4, size = 2, stroke = 0.8) +
    scale_x_continuous(limits = c(0, NA)) +
    labs(x = metric_titles[["power"]], y = NULL) +
    theme_losslab()

  patchwork::wrap_plots(plane, ranking, widths = c(1.25, 1))
}
