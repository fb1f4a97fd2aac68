# Cause of the published gap: goodput without added loss by the bottleneck's buffer.
height_cm <- 6.2
blocks <- c("published", "routers", "routers-shallow", "setup")
shown <- function(cells) filter(cells, block %in% blocks, loss_percent == 0)

draw <- function(data) {
  cells <- data$summary |>
    filter(
      block %in% blocks, loss_percent == 0, metric == "goodput_mbit", app == "iperf3",
      statistic_over == "replicates"
    ) |>
    mutate(setup = label_setups(sender_delay_ms))
  published <- data$published |>
    filter(from == "text", app == "iperf3", competitor == "none", loss_percent == 0)

  ends <- line_ends(cells, "buffer_packets", "mean", "algorithm", "setup", log_y = TRUE)

  ggplot(cells, aes(buffer_packets, mean, colour = algorithm, shape = algorithm)) +
    geom_hline(
      aes(yintercept = goodput_mbit, colour = algorithm, linetype = "published"),
      data = published, linewidth = 0.4
    ) +
    geom_line(linewidth = 0.5) +
    geom_linerange(aes(ymin = mean_low, ymax = mean_high), na.rm = TRUE) +
    geom_point(size = 2) +
    facet_wrap(vars(setup)) +
    name_lines(
      ends, "buffer_packets", "algorithm", \(name) label_algorithms(name, data$algorithms)
    ) +
    scale_x_log10(breaks = sort(unique(cells$buffer_packets)), expand = room_for_names()) +
    log_mbit() +
    algorithm_scales(data$algorithms) +
    scale_linetype_manual(values = c(published = "dashed"), name = NULL) +
    guides(linetype = guide_legend(override.aes = list(colour = "black"))) +
    labs(x = "Buffer of the bottleneck (packets)", y = "Goodput of 5 s (Mbit/s)") +
    theme_losslab()
}
