# RTT of the idle path: measured, less a ping's own time on the link, over configured.
height_cm <- 6
shown <- function(cells) filter(cells, block == "rtt")

draw <- function(data) {
  replicates <- data$replicates |>
    filter(block == "rtt", valid) |>
    derive_metrics()

  ggplot(replicates, aes(factor(rtt_ms), rtt_error_percent)) +
    annotate("rect", xmin = -Inf, xmax = Inf, ymin = -0.1, ymax = 0.1, fill = "grey90") +
    geom_hline(yintercept = 0, colour = "grey60") +
    geom_point(size = 1.8) +
    scale_y_continuous(labels = signed_labels) +
    labs(x = "Configured RTT (ms)", y = "Error of the\nmeasured RTT (%)") +
    theme_losslab()
}
