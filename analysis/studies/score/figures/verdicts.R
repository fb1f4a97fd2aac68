# Which criteria each algorithm meets; of those that the campaign measures.
height_cm <- function(data) verdicts_height_cm(shown_criteria(data))

shown_criteria <- function(data) {
  judge_suite(data$suite, data$cells, data$replicates, data$intervals) |>
    filter(!is.na(value))
}

draw <- function(data) draw_verdicts(shown_criteria(data), data$algorithms)
