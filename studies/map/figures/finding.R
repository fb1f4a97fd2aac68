# First page: CUBIC's goodput with a shallow buffer over that of the paper's replication, without
# and with pauses of the bottleneck.
height_cm <- 3.4
width_cm <- 7.5
shown <- function(cells) filter(cells, algorithm == "cubic", block == paused_block)

draw <- function(data) {
  # As in the sentence (`pause_factors`), where the replication leaves a fifth of the link unused.
  pause_points(data$replicates, data$published) |>
    filter(
      rate_mbit != pauses_fitted_mbit,
      replication_mbit < 0.8 * theoretical_goodput(rate_mbit)
    ) |>
    ggplot(aes(goodput_mbit / replication_mbit, factor(host, rev(host_labels)))) +
    geom_vline(xintercept = 1, colour = "grey60") +
    geom_point(size = 1.4, alpha = 0.5, colour = "#0072B2") +
    scale_x_log10() +
    labs(x = "CUBIC's goodput here / in the replication", y = NULL) +
    theme_finding()
}
