# Effect of an AQM: download time and RTT beside a long-lived flow, a row per qdisc.
height_cm <- 9
shown <- function(cells) {
  filter(
    cells,
    block %in% c("web", "two-queues", "aqm"), competitor != "none", buffer_packets == 100
  )
}

measure_labels <- c(
  download_s = "Download of the page (s)", rtt_before_fetch_ms = "RTT before it (ms)"
)

draw <- function(data) {
  cells <- shown(data$summary) |>
    filter(metric %in% names(measure_labels), statistic_over == "replicates") |>
    mutate(
      queue = forcats::fct_rev(label_queues(queue)),
      measure = factor(measure_labels[metric], measure_labels)
    )

  ggplot(cells, aes(mean, queue, colour = algorithm)) +
    geom_linerange(
      aes(xmin = mean_low, xmax = mean_high, group = algorithm),
      position = position_dodge(width = 0.6), alpha = 0.6, na.rm = TRUE
    ) +
    geom_point(
      aes(shape = algorithm, group = algorithm),
      position = position_dodge(width = 0.6), size = 2.2
    ) +
    facet_wrap(vars(measure), scales = "free_x") +
    algorithm_scales(data$algorithms) +
    scale_x_log10() +
    labs(x = NULL, y = NULL) +
    theme_losslab()
}
