# Heat maps: by how much BBR beats CUBIC over RTT and rate, one per buffer, without random loss.
height_cm <- 13
blocks <- c("grid", "imc", "paper", "shallow")
shown <- function(cells) filter(cells, block %in% blocks)

draw <- function(data) {
  conditions <- gains(data$replicates) |>
    filter(block %in% blocks) |>
    distinct(rtt_ms, rate_mbit, buffer_packets, .keep_all = TRUE) |>
    mutate(
      gain_percent = 100 * (ratio - 1),
      text = ifelse(winner == "undecided", "\u2248", sprintf("%+.0f", gain_percent)),
      buffer = factor(
        label_bytes(buffer_packets), label_bytes(sort(unique(buffer_packets)))
      )
    )

  ggplot(conditions, aes(factor(rate_mbit), factor(rtt_ms), fill = log2(ratio))) +
    geom_tile(colour = "white", linewidth = 0.6) +
    geom_text(aes(label = text), size = 2.7) +
    facet_wrap(vars(buffer), ncol = 2) +
    scale_fill_gradient2(
      low = winner_colours[["CUBIC"]], mid = "grey96", high = winner_colours[["BBR"]],
      limits = c(-2, 2), oob = scales::squish, breaks = -2:2,
      labels = c("\u2264 1/4", "1/2", "1", "2", "\u2265 4")
    ) +
    labs(
      x = "Rate of the bottleneck (Mbit/s)", y = "RTT (ms)", fill = "BBR / CUBIC"
    ) +
    theme_losslab() +
    theme(panel.grid = element_blank(), legend.key.width = grid::unit(1.2, "cm"))
}
