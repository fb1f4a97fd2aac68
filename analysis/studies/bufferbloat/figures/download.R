# Download time and RTT alone, beside a long-lived flow, and with two queues: every run, the mean,
# and the published value.
height_cm <- 13
shown <- function(cells) filter(cells, block %in% c("web", "two-queues"))

draw <- function(data) {
  panels <- c(download_s = "Download (s)", rtt_before_fetch_ms = "RTT before it (ms)")
  placed <- function(rows) {
    # The columns may be missing in all runs.
    rows |>
      with_columns(names(panels)) |>
      mutate(
        load = label_load(ifelse(load == "alone", "none", algorithm)),
        where = label_set_ups(queue, buffer_packets)
      ) |>
      tidyr::pivot_longer(all_of(names(panels)), names_to = "metric", values_to = "value") |>
      mutate(panel = factor(panels[metric], panels)) |>
      filter(!is.na(value))
  }
  runs <- web_runs(data$replicates) |>
    filter(block %in% c("web", "two-queues")) |>
    placed()
  means <- runs |>
    group_by(algorithm, load, where, panel) |>
    summarise(value = mean(value), .groups = "drop")
  published <- data$published |>
    mutate(buffer_packets = 100) |>
    placed()
  dodge <- position_dodge(0.6)

  ggplot(runs, aes(where, value, colour = algorithm, shape = algorithm)) +
    geom_point(position = dodge, size = 1.2, alpha = 0.45) +
    geom_point(data = means, position = dodge, size = 7, shape = "-", show.legend = FALSE) +
    geom_point(
      aes(fill = "published"),
      data = published, position = dodge, shape = 4, size = 2.5, stroke = 0.9
    ) +
    facet_grid(rows = vars(panel), cols = vars(load), scales = "free_y", switch = "y") +
    scale_y_log10() +
    algorithm_scales(data$algorithms)[c(1, 3, 4)] +
    scale_fill_manual(values = c(published = "black"), name = NULL) +
    guides(
      fill = guide_legend(override.aes = list(colour = "black")),
      colour = guide_legend(override.aes = list(size = 2, alpha = 1))
    ) +
    labs(x = NULL, y = NULL) +
    theme_losslab() +
    theme(strip.placement = "outside", axis.text.x = element_text(size = 7.5))
}
