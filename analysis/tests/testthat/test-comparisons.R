# Comparisons with published runs, deterministic cells, and the predictions of a source as a family.
ten <- c(9.1, 10.4, 9.8, 10.9, 9.5, 10.2, 9.9, 10.6, 9.3, 10.3)

# Judge claims about cells whose runs are `values`, by name.
judge_all <- function(claims, ...) {
  values <- list(...)
  cells <- conditions(cell = names(values), loss_percent = seq_along(values))
  cells$n_replicates <- cells$n_valid <- lengths(values)
  replicates <- cells[rep(seq_along(values), lengths(values)), ]
  replicates$goodput_mbit <- unlist(values)
  replicates$replicate <- unlist(lapply(values, seq_along))
  replicates$seed <- seq_len(nrow(replicates))
  replicates$valid <- TRUE
  evaluate_claims(claims, list(cells = cells, replicates = replicates), "loss")
}
value_of <- function(loss, published, within, ...) {
  list(
    id = paste0("c", loss), sentence = "s", source = "s", kind = "value", evidence = "own",
    where = list(loss_percent = loss), published = published, within = within, ...
  )
}

test_that("a prediction interval of one run covers a new run as often as it says", {
  set.seed(3, kind = "Mersenne-Twister", sample.kind = "Rejection")
  covered <- replicate(4000, {
    found <- prediction_interval(exp(stats::rnorm(6, 2, 0.5)), 1)
    new <- exp(stats::rnorm(1, 2, 0.5))
    found$low <= new && new <= found$high
  })
  expect_lt(abs(mean(covered) - 0.95), 0.011)
})

test_that("a prediction interval keeps its width with many runs, a mean's does not", {
  set.seed(3, kind = "Mersenne-Twister", sample.kind = "Rejection")
  many <- stats::rnorm(4000, 100, 10)
  expect_equal(unlist(prediction_interval(many, 1)), c(low = 80.4, high = 119.6), tolerance = 0.03)
  mean_of_many <- unlist(mean_interval(many))
  expect_lt(diff(mean_of_many), 1)
  expect_true(is.na(prediction_interval(ten[1:4], 1)$low))
  expect_lt(prediction_interval(ten, 5)$high, prediction_interval(ten, 1)$high)
})

test_that("two samples have Welch's interval", {
  theirs <- c(10.8, 11.9, 11.2, 12.4, 11.5)
  found <- two_sample_interval(ten, stats::sd(theirs), length(theirs))
  expect_equal(
    c(found$low, found$high) - mean(theirs), as.vector(stats::t.test(ten, theirs)$conf.int)
  )
})

test_that("ratios of runs are predicted without pairs", {
  found <- ratio_prediction(2 * ten, ten, 1)
  wider <- ratio_interval(2 * ten, ten)
  expect_true(found$low < 1.7 && found$high > 2.3)
  expect_equal(c(wider$low, wider$high), c(2, 2))
  expect_true(is.na(ratio_prediction(c(0, ten), ten, 1)$low))
})

test_that("the interval of Jain's index is below one", {
  shares <- c(0.999, 0.91, 0.998, 0.997, 0.87)
  expect_gt(mean_interval(shares)$high, 1)
  found <- mean_interval_of(shares, "jain_index")
  expect_true(found$low < mean(shares) && mean(shares) < found$high && found$high < 1)
  expect_equal(mean_interval_of(shares, "goodput_mbit"), mean_interval(shares))
  expect_equal(mean_interval_of(rep(1, 5), "jain_index"), list(low = 1, high = 1))
  data <- dplyr::group_by(tibble::tibble(metric = "jain_index", value = shares), metric)
  expect_equal(describe_groups(data, "value")$mean_high, found$high)
})

test_that("a run of the same kind is undecidable, however many runs of ours there are", {
  set.seed(5, kind = "Mersenne-Twister", sample.kind = "Rejection")
  many <- stats::rnorm(1000, 100, 20)
  found <- judge_all(
    list(value_of(1, 75, 10), value_of(1, 75, 10, published_runs = 1)), a = many
  )
  expect_equal(found$verdict, c("not reproduced", "undecidable"))
  expect_equal(found$interval, c("confidence, 95 %", "prediction of one run, 95 %"))
})

test_that("published scatter widens the interval", {
  found <- judge_all(list(
    value_of(1, 11, 1.5), value_of(1, 11, 1.5, published_runs = 5, published_sd = 1.5)
  ), a = ten)
  expect_equal(found$verdict, c("reproduced", "inconclusive"))
  expect_equal(found$interval[2], "two samples (5 published runs), 95 %")
})

test_that("runs that do not vary are deterministic, without an interval", {
  found <- judge_all(list(value_of(1, 10, 1, published_runs = 1)), a = rep(10.5, 10))
  expect_equal(found$verdict, "near")
  expect_equal(found$interval, "deterministic")
  expect_true(is.na(found$low))
  expect_equal(with_interval(10.5, 10.5, 10.5 + 1e-7, 1), "10.5 (deterministic)")
  expect_equal(with_interval(10.5, 10.4, 10.6, 1), "10.5 (10.4 to 10.6)")
  expect_equal(with_interval(numeric(), numeric(), numeric(), 1), character())
})

test_that("unfitted means share the error by Holm's method, other claims have all of it", {
  unfitted <- function(...) utils::modifyList(value_of(...), list(evidence = "not fitted"))
  # The mean's 95 % interval is 9.58 to 10.43.
  near <- mean_interval(ten)$high - 10 + 0.01
  far <- unfitted(1, 50, 1)
  claims <- list(unfitted(1, 10, near), value_of(1, 10, near), far, unfitted(1, 60, 1))
  found <- judge_all(claims, a = ten)
  # After the two clear claims, the near one has all of the error.
  expect_equal(found$verdict[c(1, 3)], c("reproduced", "not reproduced"))
  expect_equal(found$interval[1], "confidence, 95 %")
  # Beside an open claim, it has half of it.
  claims[[3]] <- unfitted(1, 10.3, near)
  found <- judge_all(claims, a = ten)
  expect_equal(found$verdict[1:3], c("inconclusive", "reproduced", "inconclusive"))
  expect_equal(found$interval[1:2], c("confidence, 97.5 %", "confidence, 95 %"))
  # What cannot be compared does not count.
  claims[[3]]$not_comparable <- "another quantity"
  expect_equal(judge_all(claims, a = ten)$verdict[1], "reproduced")
})

test_that("cells that may end early have wider intervals", {
  early <- conditions(cell = "a", goodput_mbit = ten, error_share = 0.04)
  expect_equal(level_of(share_of(early)), 0.998)
  expect_equal(level_of(share_of(early[0, ])), 0.95)
  early$metric <- "goodput_mbit"
  grouped <- dplyr::group_by(early, cell, metric)
  expect_equal(
    describe_groups(grouped, "goodput_mbit")$mean_high, mean_interval(ten, 0.998)$high
  )
  cells <- conditions(loss_percent = c(1, 1, 2), error_share = c(0.8, 1, 1))
  both <- share_error(cells, "loss_percent")
  expect_equal(both$error_share, c(0.8, 0.8, 1))
})

test_that("a cell that ended early is compared with all runs of the other one", {
  runs <- function(values, share) {
    tibble::tibble(replicate = seq_along(values), seed = 1, value = values, error_share = share)
  }
  found <- ratio_of_runs(runs(ten, 0.8), runs(rep(5, 5), 0.04))
  expect_equal(found[c("low", "high")], ratio_interval(ten, rep(5, 5), FALSE, 0.96)[2:3])
  # With the same number of runs, they are paired.
  found <- ratio_of_runs(runs(ten, 0.8), runs(2 * ten, 0.8))
  expect_equal(found, list(value = 0.5, low = 0.5, high = 0.5, n = 10))
})

test_that("the intervals of claims have the error share of their cells", {
  cells <- conditions(cell = c("a", "b"), loss_percent = 1:2, n_replicates = 10, n_valid = 10)
  replicates <- cells[rep(1:2, each = 10), ]
  replicates$error_share <- rep(c(1, 0.8), each = 10)
  replicates$goodput_mbit <- c(ten, 2 * ten)
  replicates$replicate <- rep(1:10, 2)
  replicates$seed <- 1:20
  replicates$valid <- TRUE
  ratio <- list(
    id = "r", sentence = "s", source = "s", kind = "smallest_ratio", evidence = "own",
    where = list(loss_percent = 2), against = list(loss_percent = 1), at_least = 1
  )
  found <- evaluate_claims(
    list(value_of(1, 10, 1), value_of(2, 20, 2), ratio),
    list(cells = cells, replicates = replicates), "loss"
  )
  expect_equal(found$high[1], mean_interval(ten)$high)
  expect_equal(found$high[2], mean_interval(2 * ten, 0.96)$high)
  expect_equal(found$high[3], ratio_interval(2 * ten, ten, FALSE, 0.95)$high)
})
