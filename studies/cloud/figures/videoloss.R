# The source's figures 6 (CUBIC) and 7 (BBR): window of the video's connection with added loss.
height_cm <- 11
shown <- function(cells) filter(cells, block %in% c("published-video", "routers-video"))

draw <- function(data) {
  cwnd <- data$flows |>
    filter(block %in% c("published-video", "routers-video")) |>
    with_source(data$curves, "ffmpeg")
  draw_windows_by_loss(cwnd, data$algorithms)
}
