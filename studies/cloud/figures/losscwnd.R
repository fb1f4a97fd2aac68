# The source's figures 3 (CUBIC) and 4 (BBR): congestion window over time with added loss.
height_cm <- 11
shown <- function(cells) filter(cells, block %in% c("published", "routers"))

draw <- function(data) {
  cwnd <- data$flows |>
    filter(block %in% c("published", "routers")) |>
    with_source(data$curves, "iperf3")
  draw_windows_by_loss(cwnd, data$algorithms)
}
