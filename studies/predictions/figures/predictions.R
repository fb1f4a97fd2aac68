# Ours and the published goodput of each condition of the three data sets.
height_cm <- 6

draw <- function(data) {
  published <- data$published |>
    filter(source != "model") |>
    select(source, algorithm, rate_mbit, rtt_ms, offloads, loss_percent, published = goodput_mbit)
  ours <- data$summary |>
    filter(block != "packets", statistic_over == "replicates", metric == "goodput_mbit") |>
    select(
      algorithm, rate_mbit, rtt_ms, offloads, loss_percent, window_bytes, block,
      mean, mean_low, mean_high
    )
  drawn <- inner_join(
    published, ours, by = c("algorithm", "rate_mbit", "rtt_ms", "offloads", "loss_percent")
  )

  ggplot(drawn, aes(published, mean, colour = algorithm, shape = algorithm)) +
    geom_abline(slope = 1, intercept = 0, colour = "grey60", linewidth = 0.3) +
    geom_linerange(aes(ymin = mean_low, ymax = mean_high), linewidth = 0.3) +
    geom_point(size = 1.4) +
    facet_wrap(~source, scales = "free") +
    scale_x_log10() +
    scale_y_log10() +
    algorithm_scales(data$algorithms) +
    labs(x = "Published goodput (Mbit/s)", y = "Ours (Mbit/s)") +
    theme_losslab()
}
