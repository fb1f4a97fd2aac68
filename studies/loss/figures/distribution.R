# The source's slide 21, without loss and at 1 %: quartiles, minimum and maximum, published and
# measured.
height_cm <- 11
shown <- function(cells) filter(cells, block == "main", app == "iperf3", loss_percent %in% c(0, 1))

draw <- function(data) {
  boxes <- bind_rows(
    measured = data$summary |>
      filter(
        block == "main", app == "iperf3", metric == "goodput_mbit", statistic_over == "seconds"
      ),
    published = data$published,
    .id = "whose"
  ) |>
    filter(loss_percent %in% c(0, 1)) |>
    mutate(
      path = label_paths(path), loss = paste(loss_percent, "% loss"),
      whose = factor(whose, c("measured", "published"))
    )
  if (all(boxes$whose == "published")) {
    boxes <- boxes[0, ]
  }

  ggplot(boxes, aes(y = whose, colour = algorithm, fill = algorithm)) +
    geom_boxplot(
      aes(xmin = min, xlower = q25, xmiddle = median, xupper = q75, xmax = max),
      stat = "identity", orientation = "y", alpha = 0.2, width = 0.6,
      position = position_dodge(0.7)
    ) +
    facet_grid(vars(loss), vars(path)) +
    scale_x_continuous(limits = c(0, 1000)) +
    algorithm_scales(data$algorithms) +
    labs(x = "Goodput of one-second intervals (Mbit/s)", y = NULL) +
    theme_losslab()
}
