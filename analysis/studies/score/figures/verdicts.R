# Criteria that each algorithm meets, of those that the campaign measures.
height_cm <- function(data) verdicts_height_cm(shown_criteria(data))

# Keep the rows with the data, because height and plot need them and judging takes seconds.
shown_criteria <- function(data) {
  if (is.null(data$shown_criteria)) {
    data$shown_criteria <-
      judge_suite(data$suite, data$cells, data$replicates, data$intervals) |>
      filter(!is.na(value))
  }
  data$shown_criteria
}

draw <- function(data) draw_verdicts(shown_criteria(data), data$algorithms)
