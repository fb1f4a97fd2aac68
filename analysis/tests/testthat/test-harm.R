runs <- function(flows, goodput, ...) {
  conditions(
    flows = flows, goodput_mbit = goodput, fct_mean_s = 1 / goodput, replicate = seq_along(goodput),
    second_rate_mbit = 0, valid = TRUE, ...
  )
}

test_that("harm is the share of a flow's solo performance that others take", {
  replicates <- dplyr::bind_rows(
    runs("none", c(10, 20)), runs("bbr", c(4, 5)), runs("same", c(5, 20))
  )
  found <- paired_harm(replicates)
  expect_equal(found$harm[found$flows == "bbr"], c(0.6, 0.75))
  expect_equal(found$harm[found$flows == "same"], c(0.5, 0))
  # The same for a metric of which less is better.
  times <- paired_harm(replicates, "fct_mean_s", less_is_better = TRUE)
  expect_equal(times$harm, found$harm)
})

test_that("runs are compared only with the same run alone", {
  replicates <- dplyr::bind_rows(
    runs("none", c(10, 20)), runs("none", c(1, 1), rtt_ms = 80),
    runs("bbr", c(4, 5, 6)), dplyr::mutate(runs("bbr", c(9, 9)), second_rate_mbit = 5),
    runs("cubic", c(1, 1), rate_mbit = 7)
  )
  replicates$valid[2] <- FALSE
  found <- paired_harm(replicates)
  expect_equal(found$harm, 0.6)
  expect_equal(found$replicate, 1)
})

test_that("harm of a cell has the statistics of its pairs", {
  alone <- runs("none", rep(10, 6))
  found <- summarise_harm(dplyr::bind_rows(alone, runs("bbr", c(4, 5, 6, 5, 4, 6))))
  expect_equal(nrow(found), 1)
  expect_equal(found$n, 6)
  expect_equal(found$mean, 0.5)
  expect_lt(found$mean_low, 0.5)
  expect_gt(found$mean_high, 0.5)
  expect_equal(nrow(summarise_harm(alone)), 0)
})
