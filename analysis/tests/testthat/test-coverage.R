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

test_that("a miss is the distance from the interval in shares of the value", {
  expect_equal(miss(list(low = 1, high = 3), 2), 0)
  expect_equal(miss(list(low = 3, high = 4), 2), 0.5)
  expect_equal(miss(list(low = 1, high = 3), 4), 0.25)
  expect_equal(miss(list(low = 2, high = 2), 2 + 1e-12), 0)
  expect_equal(miss(list(low = NA_real_, high = NA_real_), 2), Inf)
})

test_that("intervals that miss by little are told from those that miss by much", {
  found <- dplyr::filter(
    coverage_of_intervals(runs_of_bbr(8, 10, stalled = 1)), kind == "mean, t of logarithms", n == 10
  )
  # A sample without a stalled run is 4 % above the mean: one run in ten has 57 % of the others.
  expect_gt(found$miss_percent, 2)
  expect_lt(found$miss_percent, 6)
})
