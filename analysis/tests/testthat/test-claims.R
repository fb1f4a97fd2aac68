summary <- conditions(
  algorithm = rep(c("cubic", "bbr"), each = 3), loss_percent = rep(0:2, 2),
  metric = "goodput_mbit", statistic_over = "replicates",
  mean = c(900, 200, 100, 950, 900, 890)
)
summary$mean_low <- summary$mean - 5
summary$mean_high <- summary$mean + 5
claim <- function(...) list(id = "c", sentence = "s", source = "slide 1", ...)
judge <- function(claim, data = summary) evaluate_claim(claim, list(summary = data), "loss")

test_that("a claim holds, does not hold, or was not measured", {
  falls <- claim(
    kind = "change_percent", where = list(algorithm = "cubic", loss_percent = 1),
    against = list(loss_percent = 0), at_most = -60
  )
  expect_equal(judge(falls)$verdict, "holds")
  expect_equal(judge(falls)$measured, 100 * (200 / 900 - 1))
  falls$at_most <- -90
  expect_equal(judge(falls)$verdict, "does not hold")
  falls$where$path <- "asymmetric"
  expect_equal(judge(falls)$verdict, "not measured")
})

test_that("only a rise beyond the intervals breaks monotonicity", {
  monotonic <- claim(
    kind = "largest_certain_rise_percent", along = "loss_percent",
    where = list(algorithm = "cubic", loss_percent = 1:2), at_most = 0
  )
  data <- summary
  data$mean_low[3] <- 204
  data$mean_high[3] <- 212
  expect_equal(judge(monotonic, data)$verdict, "holds")
  data$mean_low[3] <- 246
  expect_equal(judge(monotonic, data)$measured, 20)
  expect_equal(judge(monotonic, data)$verdict, "does not hold")
})

test_that("the smallest ratio is over all cells, and needs every counterpart", {
  ratio <- claim(
    kind = "smallest_ratio", where = list(algorithm = "bbr", loss_percent = 1:2),
    against = list(algorithm = "cubic"), at_least = 1
  )
  expect_equal(judge(ratio)$measured, 4.5)
  expect_equal(judge(ratio, summary[-3, ])$verdict, "not measured")
})

test_that("a factor counts in both directions", {
  factor <- claim(kind = "largest_factor", metric = "model_ratio", at_most = 1.2)
  data <- conditions(
    loss_percent = 1:2, metric = "model_ratio", statistic_over = "replicates", mean = c(0.5, 1.1)
  )
  expect_equal(judge(factor, data)$measured, 2)
})

test_that("an unknown kind or axis is an error that names it", {
  expect_error(judge(claim(kind = "magic")), "change_percent")
  expect_error(judge(claim(kind = "largest", where = list(los = 1))), "los")
})
