# The source's figure 1: congestion window over time without added loss, in its log and in both
# set-ups, and the end of slow start.
height_cm <- 8
shown <- function(cells) filter(cells, block %in% c("published", "routers"), loss_percent == 0)

draw <- function(data) {
  cwnd <- data$flows |>
    filter(block %in% c("published", "routers"), loss_percent == 0) |>
    with_source(data$curves, "iperf3")
  # The kernel has a threshold once slow start first ends.
  ends <- cwnd |>
    filter(!is.na(ssthresh_packets)) |>
    group_by(algorithm, setup) |>
    summarise(t_s = min(t_s), .groups = "drop")
  draw_windows(cwnd, data$algorithms, "flow's") +
    geom_vline(
      aes(xintercept = t_s, colour = algorithm),
      data = ends, linetype = "dashed", linewidth = 0.4, show.legend = FALSE
    )
}
