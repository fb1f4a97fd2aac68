# Jain's index of two equal flows, a point per seed.
height_cm <- 6
shown <- function(cells) filter(cells, block == "fairness")

draw <- function(data) {
  replicates <- data$replicates |>
    filter(block == "fairness", valid) |>
    mutate(label = label_algorithms(algorithm, data$algorithms))

  ggplot(replicates, aes(jain_index, label, colour = algorithm, shape = algorithm)) +
    geom_vline(xintercept = 0.99, linetype = "22", colour = "grey50") +
    geom_point(
      size = 2, alpha = 0.7, show.legend = FALSE,
      position = position_jitter(height = 0.15, width = 0, seed = 1)
    ) +
    stat_summary(fun = mean, geom = "point", shape = 124, size = 7, show.legend = FALSE) +
    algorithm_scales(data$algorithms) +
    labs(x = "Jain's index of the two flows' goodput", y = NULL) +
    theme_losslab()
}
