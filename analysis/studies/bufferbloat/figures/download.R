# Download time and RTT alone, beside a long-lived flow, and with two queues.
height_cm <- 11
shown <- function(cells) filter(cells, block %in% c("web", "two-queues"))

draw <- function(data) {
  panels <- c(download_s = "Download (s)", rtt_before_fetch_ms = "RTT before the download (ms)")
  set_up <- function(queue, buffer_packets) {
    factor(
      ifelse(queue == "fifo", paste("FIFO of", buffer_packets), "two FIFOs of 100"),
      c("FIFO of 20", "FIFO of 100", "two FIFOs of 100")
    )
  }
  cells <- data$summary |>
    filter(
      block %in% c("web", "two-queues"), metric %in% names(panels), statistic_over == "replicates"
    ) |>
    mutate(
      load = label_load(competitor), where = set_up(queue, buffer_packets),
      panel = factor(panels[metric], panels)
    )
  published <- data$published |>
    tidyr::pivot_longer(
      c(download_s, rtt_before_fetch_ms),
      names_to = "metric", values_to = "mean"
    ) |>
    mutate(
      load = label_load(ifelse(load == "alone", "none", algorithm)), where = set_up(queue, 100),
      panel = factor(ifelse(metric == "download_s", panels[1], panels[2]), panels)
    )
  dodge <- position_dodge(0.5)

  ggplot(cells, aes(where, mean, colour = algorithm, shape = algorithm)) +
    geom_linerange(aes(ymin = mean_low, ymax = mean_high), position = dodge) +
    geom_point(position = dodge, size = 2) +
    geom_point(
      aes(fill = "published"),
      data = published, position = dodge, shape = 4, size = 2.5, stroke = 0.9
    ) +
    facet_grid(rows = vars(panel), cols = vars(load), scales = "free_y", switch = "y") +
    scale_y_log10() +
    algorithm_scales(data$algorithms)[c(1, 3, 4)] +
    scale_fill_manual(values = c(published = "black"), name = NULL) +
    guides(fill = guide_legend(override.aes = list(colour = "black"))) +
    labs(x = NULL, y = NULL) +
    theme_losslab() +
    theme(strip.placement = "outside", axis.text.x = element_text(size = 7.5))
}
