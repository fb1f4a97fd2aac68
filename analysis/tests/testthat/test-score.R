# Criteria judged on recorded cells: Reno, and three deliberately bad algorithms.

of_project <- function(...) testthat::test_path("..", "..", "..", ...)
recorded <- function(table) of_project("tests", "fixtures", "score", table)
suite <- yaml::read_yaml(of_project("config", "suites", "rfc9743.yaml"))
judged <- judge_suite(
  suite,
  read_cells(recorded("score_cells.csv")),
  read_replicates(recorded("score_replicates.csv")),
  read_measured(recorded("score_intervals.csv"))
)
verdict <- function(algorithm, criterion) {
  judged$verdict[judged$algorithm == algorithm & judged$criterion == criterion]
}

test_that("Reno meets the criteria that bad algorithms miss", {
  expect_identical(verdict("reno", "backs-off"), "meets")
  expect_identical(verdict("reno", "wired"), "meets")
  expect_identical(verdict("reno", "steady"), "meets")
})

test_that("an algorithm that ignores losses misses the criterion on heavy loss", {
  expect_identical(verdict("ignores_loss", "backs-off"), "misses")
  expect_identical(verdict("ignores_loss", "breakers"), "misses")
})

test_that("an algorithm that never grows misses the criterion on a clean link", {
  expect_identical(verdict("never_grows", "wired"), "misses")
  expect_identical(verdict("never_grows", "steady"), "meets")
  expect_identical(verdict("never_grows", "backs-off"), "meets")
})

test_that("an algorithm that oscillates misses the criterion on its seconds", {
  expect_identical(verdict("oscillates", "steady"), "misses")
  expect_identical(verdict("oscillates", "backs-off"), "meets")
})

test_that("criteria without cells are not measured and name no cell", {
  rows <- judged[judged$criterion == "own-loss", ]
  expect_identical(unique(rows$verdict), "not measured")
  expect_identical(unique(rows$cells), "")
})

test_that("criteria outside the quick form or without a kernel have a reason", {
  row <- judged[judged$criterion == "two-queues-delay" & judged$algorithm == "reno", ]
  expect_identical(row$verdict, "not measured")
  expect_identical(
    row$absent, "not in the quick form. It needs another kernel, Linux 7.2"
  )
  claim <- list(kind = "largest", where = list(block = "two-queues", algorithm = "mine"))
  cells <- tibble::tibble(
    cell = c("a", "b"), block = "two-queues", algorithm = c("mine", "reno"), n_valid = 0L,
    n_replicates = 0L, reasons = "kernel 7.2 must be had, found no source"
  )
  replicates <- tibble::tibble(
    cell = character(), valid = logical(), replicate = integer(), seed = integer()
  )
  data <- list(cells = cells, replicates = replicates)
  why <- function(claim) why_not_scored("else", claim, data, suite$scenarios)
  expect_identical(why(claim), "not measured: kernel 7.2 must be had, found no source")
  claim$where$algorithm <- "other"
  expect_identical(why(claim), "the scenario and the algorithm need different kernels")
  claim$where$block <- "fifo"
  expect_identical(why(claim), "else")
})

test_that("algorithms that a scenario names are not scored", {
  cells <- tibble::tibble(cell = letters[1:3], algorithm = c("mine", "dctcp", "cubic"))
  expect_identical(scored_algorithms(suite, cells), c("mine", "cubic"))
})

test_that("zero in all runs gives an interval without width", {
  claim <- list(at_least = 0.5)
  none <- list(value = 0, low = NA_real_, high = NA_real_, n = 5L, verdict = "inconclusive")
  expect_identical(zero_interval(none, claim)$verdict, "not reproduced")
  few <- utils::modifyList(none, list(n = 4L))
  expect_identical(zero_interval(few, claim)$verdict, "inconclusive")
  some <- utils::modifyList(none, list(value = 0.1))
  expect_identical(zero_interval(some, claim)$verdict, "inconclusive")
})

test_that("every criterion uses a metric of replicates", {
  known <- names(score_metrics(
    derive_metrics(read_replicates(recorded("score_replicates.csv"))),
    read_measured(recorded("score_intervals.csv"))
  ))
  of_flows <- c(
    "jain_index", "bottleneck_loss_percent", "fct_mean_s", "download_s", "flows_goodput_mbit"
  )
  metrics <- vapply(suite$criteria, `[[`, "", "metric")
  expect_identical(setdiff(metrics, c(known, of_flows)), character())
})
