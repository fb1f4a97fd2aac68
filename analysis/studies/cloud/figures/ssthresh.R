# The source's figure 2: slow start threshold over time without added loss, in both set-ups.
height_cm <- 8
shown <- function(cells) filter(cells, block %in% c("published", "routers"), loss_percent == 0)

draw <- function(data) {
  # Until slow start has ended there is no threshold.
  ssthresh <- data$flows |>
    filter(block %in% c("published", "routers"), loss_percent == 0, !is.na(ssthresh_packets)) |>
    mutate(setup = label_setups(sender_delay_ms))

  ggplot(ssthresh, aes(t_s, ssthresh_packets, colour = algorithm)) +
    geom_step(linewidth = 0.5) +
    facet_wrap(vars(setup)) +
    scale_x_continuous(limits = c(0, NA)) +
    scale_y_log10() +
    algorithm_scales(data$algorithms) +
    guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
    labs(x = "Time since the flow's start (s)", y = "Slow start threshold (packets)") +
    theme_losslab()
}
