# Which criteria each algorithm meets.
height_cm <- 16

draw <- function(data) {
  judge_suite(data$suite, data$cells, data$replicates, data$intervals) |>
    draw_verdicts(data$algorithms)
}
