# Goodputs of both algorithms at low and high loss and RTT: BBR's gain is 4 at high loss, 1 at low.
gain_data <- function(runs = 6, scatter = 0.01) {
  cells <- tidyr::expand_grid(
    algorithm = c("cubic", "bbr"), loss_percent = c(0.1, 7), rtt_ms = c(15, 250)
  ) |>
    dplyr::mutate(
      cell = paste(algorithm, loss_percent, rtt_ms), n_valid = runs, n_replicates = runs
    )
  full <- dplyr::bind_cols(
    cells, conditions(path = rep("symmetric", nrow(cells)))[setdiff(names(condition), names(cells))]
  )
  replicates <- tidyr::expand_grid(full, replicate = seq_len(runs)) |>
    dplyr::mutate(
      seed = replicate, valid = TRUE,
      goodput_mbit = ifelse(algorithm == "bbr" & loss_percent == 7, 4, 1) *
        exp(scatter * (replicate - mean(seq_len(runs))))
    )
  list(cells = full, replicates = replicates)
}

claim <- list(
  id = "made-up", kind = "gain_factor", where = list(loss_percent = 7),
  against = list(loss_percent = 0.1)
)

test_that("the gain factor recovers the simulated factor, with an interval", {
  found <- gain_factor(gain_data(), claim)
  expect_equal(found$value, 4)
  expect_lt(found$low, 4)
  expect_gt(found$high, 4)
  expect_equal(found$n, 6)
  # Four cells in each of two conditions, with the variance of a uniform series over six runs.
  half <- log(found$high / found$value)
  error <- sqrt(8 * stats::var(0.01 * 1:6) / 6 / 4)
  expect_equal(half, stats::qt(0.975, 8 * 5) * error)
  # A cell that ended early has a share of the error.
  data <- gain_data()
  data$replicates$error_share <- ifelse(data$replicates$cell == "bbr 7 15", 0.5, 1)
  strict <- gain_factor(data, claim)
  expect_equal(log(strict$high / strict$value), stats::qt(0.9875, 8 * 5) * error)
})

test_that("cells without a counterpart are ignored, and few runs have no interval", {
  data <- gain_data()
  data$cells <- dplyr::filter(data$cells, cell != "cubic 0.1 250")
  expect_equal(gain_factor(data, claim)$value, 4)
  expect_true(is.na(gain_factor(gain_data(runs = 4), claim)$low))
})
