# General AIMD under random loss, and its formula.
height_cm <- 8
shown <- function(cells) filter(cells, block == "response")

draw <- function(data) {
  measured <- data$summary |>
    filter(block == "response", metric == "goodput_mbit", statistic_over == "replicates") |>
    mutate(curve = paste(rtt_ms, "ms"))
  models <- measured |>
    distinct(algorithm, rtt_ms, curve) |>
    tidyr::crossing(loss_percent = 10^seq(-1.15, 0.15, length.out = 40)) |>
    mutate(mean = response_mbit(algorithm, loss_percent / 100, rtt_ms / 1e3))

  ggplot(measured, aes(loss_percent, mean, colour = algorithm, group = curve)) +
    geom_line(aes(linetype = "formula"), data = models) +
    geom_linerange(aes(ymin = mean_low, ymax = mean_high), na.rm = TRUE) +
    geom_point(aes(shape = algorithm), size = 2) +
    geom_text(
      aes(label = curve),
      data = measured |> group_by(curve) |> slice_min(loss_percent),
      hjust = 1.2, vjust = 1.4, size = 3, show.legend = FALSE
    ) +
    scale_x_log10(expand = expansion(c(0.15, 0.05))) +
    scale_y_log10() +
    scale_linetype_manual(values = "22") +
    algorithm_scales(data$algorithms) +
    # The caption names the only algorithm.
    guides(colour = "none", shape = "none") +
    labs(x = "Packet loss (%)", y = metric_titles[["goodput_mbit"]], linetype = NULL) +
    theme_losslab()
}
