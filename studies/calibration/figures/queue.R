# Queue at the bottleneck over time, in bandwidth-delay products.
height_cm <- 10
shown <- function(cells) filter(cells, block == "queue")

draw <- function(data) {
  queue <- data$queue |>
    filter(block == "queue") |>
    mutate(
      rate = factor(paste(rate_mbit, "Mbit/s"), paste(sort(unique(rate_mbit)), "Mbit/s")),
      bdp = backlog_packets / bdp_packets(rate_mbit, rtt_ms)
    )

  ggplot(queue, aes(t_s, bdp, colour = algorithm)) +
    geom_hline(yintercept = 1, linetype = "22", colour = "grey50") +
    geom_step(linewidth = 0.3) +
    facet_wrap(vars(rate), ncol = 1) +
    algorithm_scales(data$algorithms) +
    guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
    labs(x = "Time since the flow's start (s)", y = "Queue (bandwidth-delay products)") +
    theme_losslab()
}
