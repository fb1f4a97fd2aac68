# Goodput without loss as a share of the link's rate less framing.
height_cm <- 7
shown <- function(cells) filter(cells, block == "utilisation")

draw <- function(data) {
  replicates <- data$replicates |>
    filter(block == "utilisation", valid) |>
    derive_metrics() |>
    mutate(rate = factor(paste(rate_mbit, "Mbit/s"), paste(sort(unique(rate_mbit)), "Mbit/s")))

  ggplot(
    replicates, aes(rate, utilisation_percent, colour = algorithm, shape = algorithm)
  ) +
    geom_hline(yintercept = 99, linetype = "22", colour = "grey50") +
    geom_point(size = 2, position = position_dodge(0.4)) +
    scale_y_continuous(limits = c(97, 100.2)) +
    algorithm_scales(data$algorithms) +
    labs(x = "Rate of the bottleneck", y = "Share of the\ntheoretical goodput (%)") +
    theme_losslab()
}
