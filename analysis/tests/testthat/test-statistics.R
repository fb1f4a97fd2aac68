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

test_that("bootstrap intervals are seeded, ordered and cover their statistic", {
  x <- c(4, 5, 6, 7, 8, 9)
  first <- bootstrap_intervals(x)
  expect_identical(first, bootstrap_intervals(x))
  expect_lt(first$mean[1], mean(x))
  expect_gt(first$mean[2], mean(x))
  expect_true(all(is.na(bootstrap_intervals(5)$median)))
})

test_that("column medians are R's medians, for odd and even lengths", {
  for (n in 2:5) {
    values <- matrix(stats::rnorm(n * 50), nrow = n)
    expect_equal(column_medians(values), apply(values, 2, stats::median))
  }
})

test_that("changes are against the same algorithm and path without loss", {
  means <- tibble::tibble(
    algorithm = "cubic", path = "symmetric", loss_percent = c(0, 1), mean = c(800, 200)
  )
  expect_equal(change_against_baseline(means)$change_percent, c(0, -75))
})
