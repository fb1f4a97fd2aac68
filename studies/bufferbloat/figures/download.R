# Download time and RTT alone, beside a long-lived flow, and with two queues, as in the lab: every
# run, the median, and the published value.
height_cm <- 8.7
shown <- function(cells) filter(cells, block %in% c("published-web", "published-two-queues"))

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
  runs <- shown(web_runs(data$replicates)) |> placed()
  medians <- runs |>
    group_by(algorithm, load, where, panel) |>
    summarise(value = stats::median(value), .groups = "drop")
  published <- data$published |>
    # The download time of the printed rate, as the claims compare it.
    mutate(buffer_packets = 100, download_s = page_kib / rate_kib_s) |>
    placed() |>
    # A cross stands in its algorithm's column even if it is the only one.
    tidyr::complete(tidyr::nesting(where, load, panel), algorithm)
  dodge <- position_dodge(0.6)

  ggplot(runs, aes(where, value, colour = algorithm, shape = algorithm)) +
    geom_point(position = dodge, size = 1.2, alpha = 0.45) +
    geom_point(data = medians, position = dodge, size = 7, shape = "-", show.legend = FALSE) +
    geom_point(
      aes(fill = "published"),
      data = published, position = dodge, shape = 4, size = 2.5, stroke = 0.9, na.rm = TRUE
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
