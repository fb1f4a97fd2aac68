# The source's figure 5: congestion window of the video's connection without added loss.
height_cm <- 7.5
shown <- function(cells) {
  filter(cells, block %in% c("published-video", "routers-video"), loss_percent == 0)
}

draw <- function(data) {
  cwnd <- data$flows |>
    filter(block %in% c("published-video", "routers-video"), loss_percent == 0) |>
    with_source(data$curves, "ffmpeg")
  draw_windows(cwnd, data$algorithms, "stream's")
}
