replicates <- conditions(
  cell = rep(c("cubic_1", "bbr_1"), each = 3), algorithm = rep(c("cubic", "bbr"), each = 3),
  replicate = rep(0:2, 2), seed = replicate, attempt = 1, reasons = "", earlier_reasons = "",
  valid = c(TRUE, TRUE, FALSE, TRUE, TRUE, TRUE), goodput_mbit = c(100, 200, 1e6, 400, 600, 500)
)

test_that("an invalid replicate enters no statistic and is counted", {
  found <- summarise_replicates(replicates)
  cubic <- found[found$algorithm == "cubic", ]
  expect_equal(cubic$n, 2)
  expect_equal(cubic$n_invalid, 1)
  expect_equal(cubic$mean, 150)
  expect_equal(cubic$max, 200)
})

test_that("ratios are paired by replicate, without unpaired replicates", {
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

test_that("the mean of ratios is geometric, with an interval on logarithms", {
  pairs <- conditions(
    algorithm = rep(c("cubic", "bbr"), each = 5), replicate = rep(0:4, 2), valid = TRUE,
    goodput_mbit = c(10, 20, 30, 40, 50, 20, 40, 60, 80, 400), cell = algorithm
  )
  found <- summarise_ratios(pairs)
  expect_equal(found$mean, (2^4 * 8)^(1 / 5))
  logs <- log(c(2, 2, 2, 2, 8))
  expect_equal(found$mean_high, exp(as.numeric(stats::t.test(logs)$conf.int[2])))
  expect_equal(found$max, 8)
  expect_equal(names(summarise_ratios(pairs[0, ])), names(found))
})

test_that("seconds of a run have no interval", {
  seconds <- conditions(cell = rep("a", 8), replicate = 0, t_s = 1:8, goodput_mbit = 1:8)
  found <- summarise_seconds(seconds)
  expect_equal(found$mean, 4.5)
  expect_true(all(is.na(found[interval_columns])))
})

test_that("changes are against the same algorithm and path without loss", {
  means <- tibble::tibble(
    algorithm = "cubic", path = "symmetric", loss_percent = c(0, 1), mean = c(800, 200)
  )
  expect_equal(change_against_baseline(means)$change_percent, c(0, -75))
})
