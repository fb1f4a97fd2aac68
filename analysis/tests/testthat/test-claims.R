# Make replicates of cells with values close to `mean`.
runs <- function(cells, spread = 0.02, n = 6) {
  found <- cells[rep(seq_len(nrow(cells)), each = n), ]
  found$replicate <- rep(seq_len(n) - 1, nrow(cells))
  found$seed <- 1000 * round(100 * found$loss_percent) + found$replicate
  off <- 1 + spread * seq(-1, 1, length.out = n)
  found$goodput_mbit <- found$mean * rep(off, nrow(cells))
  found$valid <- TRUE
  found
}

six <- conditions(
  algorithm = rep(c("cubic", "bbr"), each = 3), loss_percent = rep(0:2, 2),
  mean = c(900, 200, 100, 950, 900, 890), cell = paste0(algorithm, loss_percent)
)
claim <- function(...) list(id = "c", sentence = "s", source = "slide 1", ...)

# Judge a claim; all cells are part of the campaign, and the `gone` ones have no valid result.
judge <- function(claim, cells = six, gone = integer(), replicates = runs(cells)) {
  lost <- cells$cell[gone]
  counted <- dplyr::mutate(
    cells[c("block", "cell", condition_columns)],
    n_replicates = 6, n_valid = ifelse(cell %in% lost, 0, 6)
  )
  data <- list(cells = counted, replicates = replicates[!replicates$cell %in% lost, ])
  evaluate_claim(claim, data, "loss")
}

falls <- claim(
  kind = "change_percent", where = list(algorithm = "cubic", loss_percent = 1),
  against = list(loss_percent = 0), at_most = -60
)

test_that("a claim is reproduced, not reproduced, inconclusive or not measured", {
  found <- judge(falls)
  expect_equal(found$verdict, "reproduced")
  expect_equal(found$measured, 100 * (200 / 900 - 1))
  expect_equal(found$unit, "%")
  expect_equal(found$n, 6)
  expect_true(found$low < found$measured && found$measured < found$high)
  falls$at_most <- -90
  expect_equal(judge(falls)$verdict, "not reproduced")
  falls$at_most <- 100 * (200 / 900 - 1)
  expect_equal(judge(falls)$verdict, "inconclusive")
  falls$where$path <- "asymmetric"
  expect_equal(judge(falls)$verdict, "not measured")
  expect_match(judge(falls)$absent, "no such cell")
})

test_that("fewer than five runs are inconclusive", {
  found <- judge(falls, replicates = runs(six, n = 4))
  expect_equal(found$verdict, "inconclusive")
  expect_equal(found$measured, 100 * (200 / 900 - 1))
  expect_equal(found$absent, "n = 4, but a confidence interval needs 5")
})

test_that("runs are paired only if their seeds are equal", {
  noisy <- runs(six, spread = 0.5)
  ratio <- claim(
    kind = "smallest_ratio", where = list(algorithm = "bbr", loss_percent = 1),
    against = list(algorithm = "cubic"), at_least = 1
  )
  # Common variation cancels in the ratio.
  expect_equal(judge(ratio, replicates = noisy)$verdict, "reproduced")
  expect_equal(judge(ratio, replicates = noisy)$measured, 4.5)
  expect_true(is.na(judge(ratio, replicates = noisy)$low))
  noisy$seed[noisy$algorithm == "bbr"] <- 1e6 + noisy$seed[noisy$algorithm == "bbr"]
  apart <- judge(ratio, replicates = noisy)
  expect_equal(apart$measured, 4.5)
  expect_lt(apart$low, 3)
})

test_that("only a significant rise breaks monotonicity", {
  monotonic <- claim(
    kind = "largest_rise_percent", along = "loss_percent",
    where = list(algorithm = "cubic", loss_percent = 1:2), at_most = 0
  )
  expect_equal(judge(monotonic)$verdict, "reproduced")
  rising <- six
  rising$mean[3] <- 201
  expect_equal(judge(monotonic, rising)$verdict, "inconclusive")
  rising$mean[3] <- 240
  expect_equal(judge(monotonic, rising)$measured, 20)
  expect_equal(judge(monotonic, rising)$verdict, "not reproduced")
  # A campaign that measures one cell of the curve shows nothing about its shape.
  expect_equal(judge(monotonic, six[2, ])$verdict, "not measured")
})

test_that("a ratio to zero has no number, and the reason says so", {
  rises <- claim(
    kind = "change_percent", where = list(algorithm = "cubic", loss_percent = 1),
    against = list(loss_percent = 0), at_least = 1
  )
  still <- dplyr::mutate(six, mean = ifelse(loss_percent == 0, 0, mean))
  expect_equal(judge(rises, still)$verdict, "not measured")
  expect_match(judge(rises, still)$absent, "a ratio to zero")
  gain <- claim(kind = "gain_factor", where = list(loss_percent = 1),
    against = list(loss_percent = 0), at_least = 1)
  expect_equal(judge(gain, still)$verdict, "not measured")
})

file_of <- function(lines) {
  path <- tempfile()
  writeLines(lines, path)
  path
}

test_that("claims have the values that losslab checked", {
  path <- file_of(c("at_most: 1e3", "at_least: 10000000000", "ecn: [on, off]", "cause: true"))
  expect_equal(
    read_claims(path),
    list(at_most = 1000, at_least = 1e10, ecn = c("on", "off"), cause = TRUE)
  )
})

test_that("text in a column of numbers is an error with the column", {
  path <- file_of(c("n,who", "1,me"))
  expect_error(read_measured(path), "column who must have numbers, found me; .* words = \"who\"")
  expect_equal(read_measured(path, words = "who")$who, "me")
})

test_that("the smallest ratio uses all cells and needs every counterpart", {
  ratio <- claim(
    kind = "smallest_ratio", where = list(algorithm = "bbr", loss_percent = 1:2),
    against = list(algorithm = "cubic"), at_least = 1
  )
  expect_equal(judge(ratio)$measured, 4.5)
  expect_match(judge(ratio, gone = 3)$absent, "cubic2")
})

test_that("the biased end of an extreme's interval is wider", {
  alone <- claim(kind = "largest", where = list(algorithm = "cubic", loss_percent = 0), at_most = 1)
  among <- claim(kind = "largest", where = list(algorithm = "cubic"), at_most = 1)
  expect_equal(judge(among)$measured, judge(alone)$measured)
  expect_equal(judge(among)$high, judge(alone)$high)
  expect_lt(judge(among)$low, judge(alone)$low)
  lowest <- claim(kind = "smallest", where = list(algorithm = "cubic"), at_least = 150)
  expect_equal(judge(lowest)$measured, 100)
  expect_true(judge(lowest)$low < 100 && judge(lowest)$high > 100)
})

test_that("factors count in both directions", {
  factor <- claim(kind = "largest_factor", where = list(algorithm = "cubic"), at_most = 1.2)
  cells <- six[2:3, ]
  cells$mean <- c(0.5, 1.1)
  expect_equal(judge(factor, cells)$measured, 1 / mean(runs(cells)$goodput_mbit[1:6]))
  expect_equal(judge(factor, cells)$verdict, "not reproduced")
  cells$mean <- c(1.001, 0.999)
  near <- judge(factor, cells)
  expect_equal(near$low, 1)
  expect_equal(near$verdict, "reproduced")
})

test_that("observations are judged without an interval", {
  highest <- claim(
    kind = "value", where = list(algorithm = "cubic", loss_percent = 1), statistic = "max",
    at_most = 204
  )
  few <- judge(highest, replicates = runs(six, n = 2))
  expect_equal(few$measured, 204)
  expect_true(is.na(few$low))
  expect_equal(few$verdict, "reproduced")
})

test_that("claims with a missing cell are not judged, including extremes", {
  slowest <- claim(kind = "smallest", where = list(algorithm = "cubic"), at_least = 150)
  expect_equal(judge(slowest)$verdict, "not reproduced")
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

test_that("losses are judged only if every lossy cell was measured", {
  claim <- claim(kind = "largest_loss_z", at_most = 3)
  cells <- conditions(loss_percent = c(0, 1, 2), cell = c("a", "b", "c"), mean = 1)
  replicates <- dplyr::mutate(
    runs(cells),
    loss_offered_packets = 1e4, loss_packets = 100 * loss_percent
  )
  expect_equal(judge(claim, cells, replicates = replicates)$measured, 0)
  expect_match(judge(claim, cells, gone = 3, replicates = replicates)$absent, "cell c ")
})

test_that("errors name an unknown kind or axis", {
  expect_error(judge(claim(kind = "magic")), "change_percent")
  expect_error(judge(claim(kind = "largest", where = list(los = 1))), "los")
})

test_that("claims that are not reproduced have a reason, supported by a reproduced claim", {
  falls$at_most <- -90
  expect_equal(judge(falls)$unsupported, "the claim has no reason")
  falls$reason <- list(list(text = "Ours is calmer.", test = "named"))
  expect_equal(judge(falls)$reason, "Ours is calmer.")
  expect_equal(judge(falls)$unsupported, "")
  falls$reason <- list(list(text = "It has 200 left.", shown_by = list(
    kind = "value", where = list(algorithm = "cubic", loss_percent = 1), at_least = 150
  )))
  expect_equal(judge(falls)$unsupported, "")
  falls$reason[[1]]$shown_by$at_least <- 300
  expect_match(judge(falls)$unsupported, "its reason is not reproduced: 200 .*, at least 300")
  # A reproduced claim needs no reason.
  falls$at_most <- -60
  expect_equal(judge(falls)$reason, "")
  expect_equal(judge(falls)$unsupported, "")
})

test_that("incomparable claims are shown but not judged", {
  falls$at_most <- -90
  falls$not_comparable <- "Another unit."
  expect_equal(judge(falls)$verdict, "not comparable")
  expect_equal(judge(falls)$reason, "Another unit.")
  expect_equal(judge(falls)$measured, 100 * (200 / 900 - 1))
})

test_that("a published number of a single run has verdicts of its own", {
  one <- claim(kind = "value", published_runs = 1, within = 10,
               where = list(algorithm = "cubic", loss_percent = 1))
  verdict_with <- function(published, spread, n = 6) {
    one$published <- published
    one$reason <- list(list(text = "So it is.", test = "named"))
    judge(one, replicates = runs(six, spread, n))
  }
  # The goodput is 200. Runs that hardly vary need not have exactly the published number.
  expect_equal(verdict_with(205, 1e-4)$verdict, "near")
  expect_equal(verdict_with(196, 0.01)$verdict, "inside")
  expect_match(number_of_claim(verdict_with(196, 0.01)), "^200.* \\[prediction: 19.*, 20.*\\]")
  expect_equal(verdict_with(190, 0.01)$verdict, "outside")
  expect_equal(verdict_with(190, 0.01)$reason, "So it is.")
  wide <- verdict_with(190, 0.1)
  expect_equal(wide$verdict, "undecidable")
  expect_match(wide$reason, "one run, and ours scatter by 7.5 %. For any number .* So it is.$")
  expect_true(is.na(wide$runs_needed))
  # A single run far away is outside, however much ours scatter.
  expect_equal(verdict_with(400, 0.1)$verdict, "outside")
  some <- verdict_with(195, 0.025)
  expect_equal(some$verdict, "inconclusive")
  expect_match(some$reason, paste("about", some$runs_needed, "runs would decide."))
  expect_equal(verdict_with(195, 0.025, 2 * some$runs_needed)$verdict, "inside")
})
