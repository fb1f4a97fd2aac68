# The source's figure 2: slow start threshold over time without added loss, in its log and
# in both set-ups.
height_cm <- 8
shown <- function(cells) filter(cells, block %in% c("published", "routers"), loss_percent == 0)

draw <- function(data) {
  # There is no threshold until slow start ends.
  ssthresh <- data$flows |>
    filter(block %in% c("published", "routers"), loss_percent == 0) |>
    with_source(data$curves, "iperf3") |>
    filter(!is.na(ssthresh_packets))

  ends <- line_ends(ssthresh, "t_s", "ssthresh_packets", "algorithm", "setup", log_y = TRUE)

  ggplot(ssthresh, aes(t_s, ssthresh_packets, colour = algorithm)) +
    geom_step(linewidth = 0.5) +
    panels_by_setup() +
    name_lines(ends, "t_s", "algorithm", \(name) label_algorithms(name, data$algorithms)) +
    scale_x_continuous(limits = c(0, NA), expand = room_for_names(0.42)) +
    scale_y_log10() +
    algorithm_scales(data$algorithms) +
    labs(x = "Time since the flow's start (s)", y = "Slow start threshold (packets)") +
    theme_losslab()
}
