# CUBIC's goodput with the shallow buffer, with and without pauses of the bottleneck, against that
# of the replication.
height_cm <- 9.5
shown <- function(cells) {
  shallow <- c("shallow", "paper", "imc", link_block, paused_block)
  filter(cells, algorithm == "cubic", block %in% shallow)
}

host_colours <- c("fq, bucket" = "#0072B2", "no fq" = "#CC79A7", "no fq, pauses" = "#000000")

draw <- function(data) {
  points <- pause_points(data$replicates, data$published)

  ggplot(points, aes(replication_mbit, goodput_mbit, colour = host)) +
    geom_abline(colour = "grey60", linewidth = 0.4) +
    geom_linerange(
      aes(ymin = low, ymax = high),
      linewidth = 0.3, alpha = 0.6, na.rm = TRUE, show.legend = FALSE
    ) +
    geom_point(aes(shape = host), size = 1.8, alpha = 0.8) +
    scale_x_log10() +
    scale_y_log10() +
    scale_colour_manual(values = host_colours) +
    scale_shape_manual(values = c(1, 0, 17), drop = FALSE) +
    labs(
      x = "CUBIC in the replication (Mbit/s)", y = "CUBIC here (Mbit/s)", colour = NULL,
      shape = NULL
    ) +
    theme_losslab()
}
