# Cases that each algorithm passes, of those that the campaign measures.
height_cm <- function(data) verdicts_height_cm(measured_criteria(data))

measured_criteria <- function(data) filter(data$criteria, !is.na(value))

draw <- function(data) draw_verdicts(measured_criteria(data), data$algorithms)
