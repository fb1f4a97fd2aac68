# Exercise B: the rows of the source's AIMD table, ours joined with the published ones.
height_cm <- 9
shown <- function(cells) filter(cells, block == "aimd")

draw <- function(data) {
  scores <- scheme_scores(data$summary)
  rows <- data$published |>
    filter(exercise == "B", part == "table") |>
    inner_join(filter(scores, block == "aimd"), by = "scheme") |>
    # Two rows have the same scheme.
    group_by(scheme) |>
    mutate(label = paste(index, collapse = ", ")) |>
    ungroup()

  side <- function(x, y) {
    label_side(log(x), y, log(rows$signal_delay_p95_ms), rows$throughput_mbit)
  }

  ggplot(rows) +
    geom_segment(
      aes(
        signal_delay_p95_ms, throughput_mbit, xend = mean_signal_delay, yend = mean_throughput
      ),
      colour = "grey75", linewidth = 0.3
    ) +
    geom_point(
      aes(signal_delay_p95_ms, throughput_mbit, shape = "published"),
      size = 2, stroke = 0.8
    ) +
    geom_point(
      aes(mean_signal_delay, mean_throughput, shape = "ours"),
      colour = "#0072B2", size = 2
    ) +
    geom_text(
      aes(
        mean_signal_delay, mean_throughput,
        label = label,
        hjust = side(mean_signal_delay, mean_throughput)$hjust,
        vjust = side(mean_signal_delay, mean_throughput)$vjust
      ),
      data = distinct(rows, scheme, .keep_all = TRUE), size = 2.6, colour = "#0072B2"
    ) +
    scale_shape_manual(values = c(ours = 16, published = 4), name = NULL) +
    scale_x_log10(breaks = \(limits) pretty(limits, 4), expand = expansion(0.1)) +
    scale_y_continuous(expand = expansion(0.1)) +
    labs(x = metric_titles[["signal_delay_p95_ms"]], y = metric_titles[["throughput_mbit"]]) +
    theme_losslab()
}
