# First page: BBR's goodput over CUBIC's without added loss, by the bottleneck's buffer alone.
height_cm <- 3.4
width_cm <- 7.5
shown <- function(cells) {
  filter(
    cells, block %in% c("published", "setup"), sender_delay_ms > 0, loss_percent == 0,
    app == "iperf3", competitor == "none"
  )
}

draw <- function(data) {
  source <- data$published |>
    filter(from == "text", app == "iperf3", competitor == "none", loss_percent == 0)
  source_ratio <- source$goodput_mbit[source$algorithm == "bbr"] /
    source$goodput_mbit[source$algorithm == "cubic"]
  ratios <- data$ratios |>
    filter(
      block %in% c("published", "setup"), sender_delay_ms > 0, loss_percent == 0, app == "iperf3"
    ) |>
    mutate(buffer = factor(buffer_packets))
  ggplot(ratios, aes(mean, buffer)) +
    geom_vline(xintercept = 1, colour = "grey60") +
    geom_vline(xintercept = source_ratio, linetype = "dashed") +
    geom_linerange(aes(xmin = mean_low, xmax = mean_high), na.rm = TRUE) +
    geom_point(size = 1.8) +
    scale_x_continuous(limits = c(0, NA), breaks = c(1, 3, 5, 7)) +
    labs(x = "BBR / CUBIC (dashed: published)", y = "Buffer (packets)") +
    theme_finding()
}
