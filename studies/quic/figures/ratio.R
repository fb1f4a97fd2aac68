# QUIC's goodput over TCP's, per condition and algorithm, with confidence interval.
height_cm <- 7.5
shown <- function(cells) cells

draw <- function(data) {
  ratios <- stack_ratios(stack_pairs(data$replicates)) |>
    mutate(
      condition = stack_condition(buffer_packets, loss_percent),
      condition = factor(condition, rev(unique(condition)))
    )

  ggplot(ratios, aes(ratio, condition, colour = algorithm, shape = algorithm)) +
    geom_vline(xintercept = 1, linewidth = 0.3) +
    geom_linerange(
      aes(xmin = low, xmax = high), position = position_dodge(width = 0.5), na.rm = TRUE
    ) +
    geom_point(size = 2, position = position_dodge(width = 0.5)) +
    scale_x_log10() +
    algorithm_scales(data$algorithms) +
    labs(x = "Goodput of ngtcp2's QUIC over that of the kernel's TCP", y = NULL) +
    theme_losslab()
}
