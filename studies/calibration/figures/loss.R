# Lost packets against the binomial distribution, in standard errors.
height_cm <- 7
shown <- function(cells) filter(cells, loss_percent > 0)

draw <- function(data) {
  cells <- data$replicates |>
    pooled_loss() |>
    mutate(
      cell = paste0(loss_percent, " %, ", rtt_ms, " ms"),
      cell = reorder(cell, -1e4 * loss_percent - rtt_ms)
    )

  ggplot(cells, aes(z, cell, colour = algorithm, shape = algorithm)) +
    annotate("rect", ymin = -Inf, ymax = Inf, xmin = -1.96, xmax = 1.96, fill = "grey90") +
    geom_vline(xintercept = 0, colour = "grey60") +
    geom_vline(xintercept = c(-3, 3), linetype = "22", colour = "grey50") +
    geom_point(size = 2) +
    scale_x_continuous(labels = signed_labels) +
    algorithm_scales(data$algorithms) +
    labs(x = "Distance from the expected losses (standard errors)", y = "Configured loss and RTT") +
    theme_losslab()
}
