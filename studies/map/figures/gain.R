# Gain of BBR over CUBIC by RTT and rate, without random loss: heat maps, one per buffer, or points
# if there are too few conditions.
height_cm <- function(data) {
  conditions <- conditions_of(data)
  if (few(conditions)) 2.5 + 0.8 * nrow(conditions) else 13
}
blocks <- c("grid", "imc", "paper", "shallow")
shown <- function(cells) filter(cells, block %in% blocks)

# Minimum number of conditions for a heat map: three by three.
few <- function(conditions) nrow(conditions) < 9

conditions_of <- function(data) {
  gains(data$replicates) |>
    filter(block %in% blocks) |>
    distinct(rtt_ms, rate_mbit, buffer_packets, .keep_all = TRUE)
}

draw_points <- function(conditions) {
  conditions <- conditions |>
    mutate(condition = paste0(
      rtt_ms, " ms, ", rate_mbit, " Mbit/s, ", label_bytes(buffer_packets)
    ))

  ggplot(conditions, aes(ratio, reorder(condition, ratio), colour = winner)) +
    geom_vline(xintercept = 1, colour = "grey60", linewidth = 0.4) +
    geom_linerange(aes(xmin = low, xmax = high), na.rm = TRUE) +
    geom_point(size = 2) +
    scale_x_log10() +
    scale_colour_manual(values = winner_colours, drop = FALSE) +
    labs(x = "Goodput of BBR over that of CUBIC", y = NULL, colour = "Winner") +
    theme_losslab()
}

draw <- function(data) {
  conditions <- conditions_of(data)
  if (few(conditions)) {
    return(draw_points(conditions))
  }
  conditions <- conditions |>
    mutate(
      gain_percent = 100 * (ratio - 1),
      number = sprintf(ifelse(abs(gain_percent) < 0.95, "%+.1g", "%+.0f"), gain_percent),
      text = ifelse(winner == "either", "\u2248", sub("-", "\u2212", number)),
      buffer = factor(
        label_bytes(buffer_packets), label_bytes(sort(unique(buffer_packets)))
      )
    )

  ggplot(conditions, aes(factor(rate_mbit), factor(rtt_ms), fill = log2(ratio))) +
    geom_tile(colour = "white", linewidth = 0.6) +
    geom_text(aes(label = text), size = 2.7) +
    # Some buffers have only a part of the grid.
    facet_wrap(vars(buffer), ncol = 2, scales = "free") +
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
