test_that("a token bucket is compared with a link in cells that differ in nothing else", {
  runs <- conditions(
    shaper = rep(c("tbf", "link", "tbf"), each = 5), rate_mbit = rep(c(1, 1, 20), each = 5),
    valid = TRUE, goodput_mbit = c(2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 9, 9, 9, 9, 9)
  )
  rows <- shaper_ratios(runs, "goodput_mbit")
  expect_equal(rows$rate_mbit, 1)
  expect_equal(c(rows$n, rows$with_bucket, rows$with_link, rows$ratio), c(5, 2, 1, 2))
  expect_equal(times_text(rows), "2 times")
  expect_equal(rows$metric, "goodput_mbit")
})

test_that("without pairs there is no comparison", {
  alone <- conditions(shaper = "tbf", valid = TRUE, goodput_mbit = 1)
  rows <- shaper_ratios(alone, "goodput_mbit")
  expect_equal(nrow(rows), 0)
  expect_true(all(c("metric", "ratio", "low", "high", "with_link") %in% names(rows)))
  expect_equal(times_text(rows), not_measured)
})
