# The factorial: BBR over CUBIC for each of its sixteen conditions, measured and published. The two
# rows that the source's LAN of 100 Mbit/s limited have a point of this LAN, too.
height_cm <- 8.4
shown <- function(cells) filter(cells, block %in% c("published", lan_block))

draw <- function(data) {
  name <- function(rtt_ms, rate_mbit, buffer_packets, loss_percent) {
    paste0(
      rtt_ms, " ms, ", ifelse(rate_mbit == 1000, "1 Gbit/s", paste(rate_mbit, "Mbit/s")), ", ",
      ifelse(buffer_packets > 1000, "10 MB", "100 KB"), ", ", loss_percent, " %"
    )
  }
  conditions <- gains(data$replicates) |>
    filter(block == "published" | block == lan_block & loss_percent > 0) |>
    mutate(
      where = ifelse(block == lan_block, "on the LAN of 100 Mbit/s", "measured"),
      rate_mbit = ifelse(block == lan_block, 1000, rate_mbit),
      condition = name(rtt_ms, rate_mbit, buffer_packets, loss_percent)
    )
  published <- data$published |>
    filter(source == "kim") |>
    mutate(
      condition = name(rtt_ms, rate_mbit, buffer_packets, loss_percent),
      ratio = bbr_mbit / cubic_mbit
    )

  ggplot(conditions, aes(ratio, reorder(condition, ratio, FUN = max), colour = winner)) +
    geom_vline(xintercept = 1, colour = "grey60", linewidth = 0.4) +
    geom_linerange(aes(xmin = low, xmax = high), na.rm = TRUE) +
    geom_point(aes(shape = where), size = 2) +
    geom_point(
      aes(shape = "published"),
      data = published, colour = "black", size = 2.2, stroke = 0.9
    ) +
    scale_x_log10(breaks = c(0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)) +
    scale_colour_manual(values = winner_colours) +
    scale_shape_manual(
      values = c(measured = 16, "on the LAN of 100 Mbit/s" = 1, published = 4)
    ) +
    labs(x = "Goodput of BBR over that of CUBIC", y = NULL, colour = "Winner", shape = NULL) +
    theme_losslab() +
    theme(legend.box = "vertical", legend.box.just = "left", legend.spacing.y = unit(0, "pt"))
}
