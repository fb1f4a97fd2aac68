# Every criterion of the suite, judged for every algorithm.
tables <- function(data, write) {
  judge_suite(data$suite, data$cells, data$replicates, data$intervals) |>
    write("criteria")
}
