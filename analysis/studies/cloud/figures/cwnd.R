# The source's figure 1: congestion window over time without added loss, in both set-ups.
height_cm <- 8
shown <- function(cells) filter(cells, block %in% c("published", "routers"), loss_percent == 0)

draw <- function(data) {
  cwnd <- data$flows |>
    filter(block %in% c("published", "routers"), loss_percent == 0)
  draw_windows(cwnd, data$algorithms, "flow's")
}
