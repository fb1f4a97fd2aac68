# Two flows of different algorithms on one bottleneck, by its buffer: the goodput of each.
height_cm <- 7
shown <- function(cells) filter(cells, block == "beside", algorithm != competitor)

draw <- function(data) {
  name <- \(algorithm) label_algorithms(algorithm, data$algorithms)
  flows <- beside_flows(filter(data$summary, statistic_over == "replicates")) |>
    filter(algorithm != beside) |>
    mutate(
      bdp = buffer_packets * frame_bytes * 8 / (rate_mbit * 1e3 * rtt_ms),
      pair = paste(name(pmin(algorithm, beside)), "and", name(pmax(algorithm, beside)))
    )

  ggplot(flows, aes(bdp, mean, colour = algorithm, linetype = started)) +
    geom_hline(aes(yintercept = rate_mbit / 2), linewidth = 0.3, colour = "grey60") +
    geom_line() +
    geom_linerange(
      aes(ymin = mean_low, ymax = mean_high), linetype = "solid", na.rm = TRUE
    ) +
    geom_point(aes(shape = algorithm), size = 2) +
    facet_wrap(vars(pair)) +
    scale_x_log10(breaks = c(0.5, 1, 4, 8), labels = c("0.5", "1", "4", "8")) +
    algorithm_scales(data$algorithms) +
    labs(
      x = "Buffer (bandwidth-delay products)", y = metric_titles[["goodput_mbit"]],
      linetype = "Started"
    ) +
    theme_losslab()
}
