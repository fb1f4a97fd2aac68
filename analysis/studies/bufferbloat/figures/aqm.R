# What an AQM buys: download time over RTT beside a long-lived flow.
height_cm <- 9
shown <- function(cells) {
  filter(
    cells,
    block %in% c("web", "two-queues", "aqm"), competitor != "none", buffer_packets == 100
  )
}

draw <- function(data) {
  cells <- data$summary |>
    filter(
      block %in% c("web", "two-queues", "aqm"), competitor != "none", buffer_packets == 100,
      metric %in% c("download_s", "rtt_before_fetch_ms"), statistic_over == "replicates"
    ) |>
    select(algorithm, queue, metric, mean, mean_low, mean_high) |>
    by_metric(c("download_s", "rtt_before_fetch_ms"), c("mean", "mean_low", "mean_high")) |>
    mutate(
      queue = label_queues(queue), label = label_algorithms(algorithm, data$algorithms)
    )

  ggplot(cells, aes(mean_rtt_before_fetch_ms, mean_download_s, colour = queue)) +
    geom_linerange(aes(ymin = mean_low_download_s, ymax = mean_high_download_s), alpha = 0.6) +
    geom_linerange(
      aes(xmin = mean_low_rtt_before_fetch_ms, xmax = mean_high_rtt_before_fetch_ms),
      alpha = 0.6
    ) +
    geom_point(aes(shape = queue), size = 2.2) +
    facet_wrap(vars(label)) +
    scale_x_log10() +
    scale_y_log10() +
    scale_colour_viridis_d(end = 0.9) +
    scale_shape_manual(values = c(16, 15, 17, 18, 8, 4, 3)) +
    labs(
      x = "RTT beside a long-lived flow (ms)", y = "Download of the page (s)",
      colour = NULL, shape = NULL
    ) +
    theme_losslab()
}
