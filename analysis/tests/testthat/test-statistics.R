replicates <- tibble::tibble(
  block = "main", cell = rep(c("cubic_1", "bbr_1"), each = 3),
  algorithm = rep(c("cubic", "bbr"), each = 3), loss_percent = 1, path = "symmetric",
  app = "iperf3", rtt_ms = 0.4, offloads = "off", replicate = rep(0:2, 2),
  valid = c(TRUE, TRUE, FALSE, TRUE, TRUE, TRUE), goodput_mbit = c(100, 200, 1e6, 400, 600, 500)
)

test_that("an invalid replicate enters no statistic and is counted", {
  found <- summarise_replicates(replicates, "goodput_mbit")
  cubic <- found[found$algorithm == "cubic", ]
  expect_equal(cubic$n, 2)
  expect_equal(cubic$n_invalid, 1)
  expect_equal(cubic$mean, 150)
  expect_equal(cubic$max, 200)
})

test_that("ratios are paired by replicate and leave unpaired ones out", {
  found <- paired_ratios(replicates)
  expect_equal(sort(found$replicate), c(0, 1))
  expect_equal(found$ratio[order(found$replicate)], c(4, 3))
})

test_that("describe gives R's own statistics and drops missing values", {
  found <- describe(c(3, 1, NA, 2, 10))
  expect_equal(found$n, 4)
  expect_equal(found$q25, 1.75)
  expect_equal(found$std, sd(c(1, 2, 3, 10)))
})

test_that("the bootstrap interval is seeded, ordered and covers the mean", {
  x <- c(4, 5, 6, 7, 8, 9)
  first <- bootstrap_interval(x)
  expect_identical(first, bootstrap_interval(x))
  expect_lt(first[["low"]], mean(x))
  expect_gt(first[["high"]], mean(x))
  expect_true(all(is.na(bootstrap_interval(5))))
})

test_that("changes are against the same algorithm and path without loss", {
  means <- tibble::tibble(
    algorithm = "cubic", path = "symmetric", loss_percent = c(0, 1), mean = c(800, 200)
  )
  expect_equal(change_against_baseline(means)$change_percent, c(0, -75))
})
