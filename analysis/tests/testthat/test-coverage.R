# Coverage of intervals on a campaign's own runs.

runs_of_bbr <- function(cells, n, stalled = 0) {
  rows <- tibble::tibble(
    study = "loss", cell = rep(paste0("c", seq_len(cells)), each = n), app = "iperf3",
    algorithm = "bbr", loss_percent = 5, valid = TRUE, block = "main", competitor = "none"
  )
  set.seed(7)
  rows$goodput_mbit <- 700 * stats::rlnorm(cells * n, sdlog = 0.01)
  # Of each cell, the last runs are much slower.
  rows$goodput_mbit[rep(seq_len(n) > n - stalled, cells)] <- 400
  rows
}

test_that("populations are of the campaign's runs, and a small one has no coverage", {
  expect_equal(nrow(coverage_of_intervals(runs_of_bbr(5, 10))), 0)
  found <- coverage_of_intervals(runs_of_bbr(8, 10))
  expect_equal(unique(found$population), "BBR, 1 to 10 % loss")
  expect_equal(unique(found$runs), 80)
  expect_equal(names(no_coverage), names(found))
  of_mean <- dplyr::filter(found, kind == "mean, t of logarithms", n == 10)
  expect_gt(of_mean$coverage_percent, 92)
})

test_that("runs that stall now and then are covered too seldom", {
  found <- coverage_of_intervals(runs_of_bbr(8, 10, stalled = 1))
  of_mean <- dplyr::filter(found, kind == "mean, t of logarithms", n == 10)
  expect_lt(of_mean$coverage_percent, 90)
})
