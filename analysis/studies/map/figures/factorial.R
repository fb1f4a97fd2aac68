# The factorial: BBR over CUBIC for each of its sixteen conditions, measured and published.
height_cm <- 11
shown <- function(cells) filter(cells, block == "published")

draw <- function(data) {
  name <- function(rtt_ms, rate_mbit, buffer_packets, loss_percent) {
    paste0(
      rtt_ms, " ms, ", ifelse(rate_mbit == 1000, "1 Gbit/s", paste(rate_mbit, "Mbit/s")), ", ",
      ifelse(buffer_packets > 1000, "10 MB", "100 KB"), ", ", loss_percent, " %"
    )
  }
  conditions <- gains(data$replicates) |>
    filter(block == "published") |>
    mutate(condition = name(rtt_ms, rate_mbit, buffer_packets, loss_percent))
  published <- data$published |>
    filter(source == "kim") |>
    mutate(
      condition = name(rtt_ms, rate_mbit, buffer_packets, loss_percent),
      ratio = bbr_mbit / cubic_mbit
    )

  ggplot(conditions, aes(ratio, reorder(condition, ratio), colour = winner)) +
    geom_vline(xintercept = 1, colour = "grey60", linewidth = 0.4) +
    geom_linerange(aes(xmin = low, xmax = high), na.rm = TRUE) +
    geom_point(size = 2) +
    geom_point(
      aes(shape = "published"),
      data = published, colour = "black", size = 2.2, stroke = 0.9
    ) +
    scale_x_log10(breaks = c(0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)) +
    scale_colour_manual(values = winner_colours) +
    scale_shape_manual(values = c(published = 4)) +
    labs(x = "Goodput of BBR over that of CUBIC", y = NULL, colour = "Winner", shape = NULL) +
    theme_losslab()
}
