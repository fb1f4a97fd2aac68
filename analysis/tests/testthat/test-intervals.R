six <- c(4, 5, 6, 7, 8, 9)

test_that("the mean's interval is Student's t, on logarithms if values are positive", {
  near <- 1000 + six
  found <- mean_interval(near)
  expect_equal(c(found$low, found$high), as.vector(stats::t.test(near)$conf.int), tolerance = 1e-5)
  zero <- c(0, six)
  found <- mean_interval(zero)
  expect_equal(c(found$low, found$high), as.vector(stats::t.test(zero)$conf.int))
  found <- mean_interval(six)
  wider <- mean_interval(six, 0.99)
  expect_lt(wider$low, found$low)
  expect_gt(wider$high, found$high)
})

test_that("the mean's interval covers skewed runs", {
  set.seed(7, kind = "Mersenne-Twister", sample.kind = "Rejection")
  samples <- replicate(1000, exp(stats::rnorm(10, 0, 0.8)), simplify = FALSE)
  inside <- \(found) found[1] <= exp(0.32) && exp(0.32) <= found[2]
  ours <- mean(vapply(samples, \(x) inside(unlist(mean_interval(x))), TRUE))
  plain <- mean(vapply(samples, \(x) inside(stats::t.test(x)$conf.int), TRUE))
  expect_gt(ours, 0.93)
  expect_lt(plain, 0.91)
})

test_that("fewer than five runs have no interval", {
  expect_true(is.na(mean_interval(six[1:4])$low))
  expect_false(is.na(mean_interval(six[1:5])$low))
  expect_true(is.na(ratio_interval(six[1:4], six[1:4])$low))
  expect_equal(ratio_interval(six[1:4], six[1:4])$value, 1)
  expect_true(is.na(median_interval(six[1:5])$low))
})

test_that("the median's interval is between order statistics", {
  expect_equal(median_interval(six), list(low = 4, high = 9))
  # 1 - 2 P(X <= 1) of Binomial(10, 1/2) is 97.9 %, and one further in it is 89 %.
  expect_equal(median_interval(10:1), list(low = 2, high = 9))
})

test_that("ratios are geometric means, paired or unpaired", {
  a <- c(2, 3, 4, 6, 9)
  b <- c(1, 2, 2, 2, 4)
  paired <- ratio_interval(a, b)
  expect_equal(paired$value, prod(a / b)^(1 / 5))
  expect_equal(
    c(paired$low, paired$high), exp(as.vector(stats::t.test(log(a / b))$conf.int))
  )
  groups <- ratio_interval(a, b, paired = FALSE)
  expect_equal(
    c(groups$low, groups$high), exp(as.vector(stats::t.test(log(a), log(b))$conf.int))
  )
  expect_equal(groups$value, paired$value)
  expect_equal(ratio_interval(b, a)$high, 1 / paired$low)
  # Equal runs have an interval without width.
  expect_equal(ratio_interval(rep(2, 5), rep(1, 5), FALSE), list(value = 2, low = 2, high = 2))
})

test_that("with zeros, the ratio is that of the means", {
  values <- c(0, 2, 2, 2, 4)
  found <- ratio_interval(values, rep(3, 5))
  expect_equal(found$value, 2 / 3)
  half <- stats::qt(0.975, 4) * stats::sd(values / 2) / sqrt(5)
  expect_equal(c(found$low, found$high), 2 / 3 * exp(c(-half, half)))
  groups <- ratio_interval(values, rep(3, 5), paired = FALSE)
  expect_equal(groups$low, found$low)
  expect_true(is.na(ratio_interval(rep(0, 6), six)$low))
  expect_true(is.na(ratio_interval(six, rep(0, 6))$value))
})

test_that("a ratio of scatter is that of the deviations, with an interval that covers it", {
  set.seed(1, kind = "Mersenne-Twister", sample.kind = "Rejection")
  found <- lapply(1:400, \(i) {
    scatter_interval(exp(stats::rnorm(10, 3, 0.02)), exp(stats::rnorm(10, 5, 0.2)))
  })
  covered <- vapply(found, \(one) one$low < 0.1 && one$high > 0.1, TRUE)
  expect_gt(mean(covered), 0.92)
  expect_equal(exp(mean(log(vapply(found, \(one) one$value, 0)))), 0.1, tolerance = 0.1)
  # The scatter is relative to the mean.
  a <- c(9, 10, 11, 10.5, 9.5)
  expect_equal(scatter_interval(100 * a, a)$value, 1)
})

test_that("no scatter is none of any other, and needs five runs", {
  a <- c(1, 2, 3, 4, 5)
  expect_equal(scatter_interval(rep(7, 5), a)[c("value", "high")], list(value = 0, high = 0))
  expect_true(is.na(scatter_interval(a, rep(7, 5))$value))
  expect_true(is.na(scatter_interval(a[1:4], a)$low))
  # A single run that differs is some scatter.
  found <- scatter_interval(c(1, 1, 1, 1, 1.001), a)
  expect_true(found$low > 0 && found$value < 0.001 && found$high < 0.01)
})

test_that("the prediction interval of a count with zeros has no negative end", {
  found <- prediction_interval(c(0, 0, 1, 3, 2), runs = 1)
  expect_equal(found$low, 0)
  expect_gt(found$high, 3)
})
