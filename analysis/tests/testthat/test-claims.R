means <- tibble::tibble(
  algorithm = rep(c("cubic", "bbr"), each = 3), path = "symmetric",
  loss_percent = rep(0:2, 2), mean = c(900, 200, 100, 950, 900, 890)
)
means$mean_low <- means$mean - 5
means$mean_high <- means$mean + 5
claim <- function(...) list(id = "c", sentence = "s", source = "slide 1", ...)

test_that("a claim holds, does not hold, or was not measured", {
  falls <- claim(
    kind = "change_percent", algorithm = "cubic", path = "symmetric", loss_percent = 1,
    at_most = -60
  )
  expect_equal(evaluate_claim(falls, means, "loss")$verdict, "holds")
  falls$at_most <- -90
  expect_equal(evaluate_claim(falls, means, "loss")$verdict, "does not hold")
  falls$path <- "asymmetric"
  expect_equal(evaluate_claim(falls, means, "loss")$verdict, "not measured")
})

test_that("only a rise beyond the intervals breaks monotonicity", {
  monotonic <- claim(
    kind = "largest_certain_rise_percent", algorithm = "cubic", path = "symmetric",
    loss_percent = 1, at_most = 0
  )
  means$mean_low[3] <- 204
  means$mean_high[3] <- 212
  expect_equal(evaluate_claim(monotonic, means, "loss")$verdict, "holds")
  means$mean_low[3] <- 246
  found <- evaluate_claim(monotonic, means, "loss")
  expect_equal(found$measured, 20)
  expect_equal(found$verdict, "does not hold")
})

test_that("the smallest ratio is over all losses", {
  ratio <- claim(kind = "smallest_ratio", path = "symmetric", loss_percent = 1, at_least = 1)
  expect_equal(evaluate_claim(ratio, means, "loss")$measured, 4.5)
})

test_that("an unknown kind is an error that names the kinds", {
  expect_error(evaluate_claim(claim(kind = "magic"), means, "loss"), "change_percent")
})
