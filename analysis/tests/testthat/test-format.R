test_that("a number that is rounded to zero has no sign", {
  expect_equal(fixed(c(-0.04, -0.06, 0, NA), 1), c("0.0", "-0.1", "0.0", not_measured))
  expect_equal(fixed(-0.4, 0), "0")
  expect_equal(with_interval(-0.001, -0.004, 0.2, 2), "0.00 (0.00 to 0.20)")
})

test_that("only a long text is cut", {
  expect_equal(clipped(c("abc", "abcdef"), 4), c("abc", "abcd ..."))
})
