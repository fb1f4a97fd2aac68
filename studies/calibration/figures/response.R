# Goodput under random loss, measured and from formulas.
height_cm <- 6.5
shown <- function(cells) filter(cells, block %in% c("response", "response-cubic"))

draw <- function(data) {
  cells <- data$summary |>
    filter(
      block %in% c("response", "response-cubic"), metric == "goodput_mbit",
      statistic_over == "replicates"
    ) |>
    mutate(
      curve = paste0(algorithm, ", RTT ", rtt_ms, " ms"),
      label = label_algorithms(algorithm, data$algorithms)
    )
  models <- cells |>
    distinct(algorithm, label, rtt_ms, curve) |>
    tidyr::crossing(loss_percent = 10^seq(-1.7, 0.5, length.out = 60)) |>
    group_by(algorithm) |>
    filter(
      loss_percent >= min(cells$loss_percent[cells$algorithm == algorithm[1]]) / 1.5,
      loss_percent <= max(cells$loss_percent[cells$algorithm == algorithm[1]]) * 1.5
    ) |>
    ungroup() |>
    mutate(mean = response_mbit(algorithm, loss_percent / 100, rtt_ms / 1e3))

  ggplot(cells, aes(loss_percent, mean, colour = algorithm, group = curve)) +
    geom_line(aes(linetype = "formula"), data = models) +
    geom_linerange(aes(ymin = mean_low, ymax = mean_high)) +
    geom_point(aes(shape = algorithm), size = 2) +
    # Above the upper curve and below the others, where no curve is.
    geom_text(
      aes(
        label = paste(rtt_ms, "ms"),
        hjust = ifelse(upper, -0.2, 1.2), vjust = ifelse(upper, -0.6, 1.8)
      ),
      data = cells |>
        group_by(curve) |>
        slice_min(loss_percent) |>
        group_by(algorithm) |>
        mutate(upper = rtt_ms == min(rtt_ms)),
      size = 3, show.legend = FALSE
    ) +
    scale_x_log10(expand = expansion(c(0.15, 0.05))) +
    scale_y_log10() +
    scale_linetype_manual(values = "22") +
    facet_wrap(vars(label), scales = "free_x") +
    algorithm_scales(data$algorithms) +
    labs(x = "Packet loss (%)", y = metric_titles[["goodput_mbit"]], linetype = NULL) +
    guides(colour = "none", shape = "none") +
    theme_losslab()
}
