summary <- conditions(
  algorithm = rep(c("cubic", "bbr"), each = 3), loss_percent = rep(0:2, 2),
  metric = "goodput_mbit", statistic_over = "replicates",
  mean = c(900, 200, 100, 950, 900, 890), cell = paste0(algorithm, loss_percent)
)
summary$mean_low <- summary$mean - 5
summary$mean_high <- summary$mean + 5
claim <- function(...) list(id = "c", sentence = "s", source = "slide 1", ...)
# All cells of `data` are part of the campaign, and the `gone` ones have no number.
judge <- function(claim, data = summary, gone = integer(), replicates = NULL) {
  cells <- dplyr::mutate(
    data[c("block", "cell", condition_columns)],
    n_replicates = 3, n_valid = ifelse(seq_len(nrow(data)) %in% gone, 0, 3)
  )
  numbers <- if (length(gone) == 0) data else data[-gone, ]
  evaluate_claim(claim, list(cells = cells, summary = numbers, replicates = replicates), "loss")
}

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
  expect_match(judge(falls)$absent, "no cell of this campaign")
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
  expect_match(judge(ratio, gone = 3)$absent, "cubic2")
})

test_that("a factor counts in both directions", {
  factor <- claim(kind = "largest_factor", metric = "model_ratio", at_most = 1.2)
  data <- conditions(
    loss_percent = 1:2, metric = "model_ratio", statistic_over = "replicates", mean = c(0.5, 1.1),
    mean_low = mean, mean_high = mean, cell = c("a", "b")
  )
  expect_equal(judge(factor, data)$measured, 2)
})

test_that("no claim is judged of which a cell is missing, an extreme least of all", {
  slowest <- claim(kind = "smallest", where = list(algorithm = "cubic"), at_least = 150)
  expect_equal(judge(slowest)$verdict, "does not hold")
  found <- judge(slowest, gone = 3)
  expect_equal(found$verdict, "not measured")
  expect_true(is.na(found$measured))
  expect_match(found$absent, "cell cubic2 without a goodput_mbit, no valid replicate")
  over <- claim(
    kind = "value_over_largest", where = list(algorithm = "bbr", loss_percent = 0),
    others = list(algorithm = "cubic"), at_least = 1
  )
  expect_equal(judge(over)$measured, 950 / 900)
  expect_match(judge(over, gone = 2)$absent, "cubic1")
})

test_that("losses are judged only when every lossy cell has been measured", {
  claim <- claim(kind = "largest_loss_z", at_most = 3)
  data <- conditions(
    loss_percent = c(0, 1, 2), cell = c("a", "b", "c"), metric = "goodput_mbit",
    statistic_over = "replicates", mean = 1, mean_low = 1, mean_high = 1
  )
  replicates <- dplyr::mutate(
    data,
    valid = TRUE, loss_offered_packets = 1e4, loss_packets = 100 * loss_percent
  )
  expect_equal(judge(claim, data, replicates = replicates)$measured, 0)
  expect_match(judge(claim, data, gone = 3, replicates = replicates[1:2, ])$absent, "cell c ")
})

test_that("an unknown kind or axis is an error that names it", {
  expect_error(judge(claim(kind = "magic")), "change_percent")
  expect_error(judge(claim(kind = "largest", where = list(los = 1))), "los")
})
