# Make runs of two algorithms with and without loss; the block `small` has no baseline.
made_up_runs <- function() {
  runs <- tidyr::expand_grid(
    algorithm = c("cubic", "bbr"), loss_percent = c(0, 1), replicate = 0:5
  ) |>
    dplyr::mutate(block = "main", goodput_mbit = ifelse(loss_percent == 0, 100, 25))
  small <- dplyr::mutate(
    dplyr::filter(runs, loss_percent == 1),
    block = "small", loss_percent = 0.1, goodput_mbit = 80
  )
  dplyr::bind_rows(runs, small) |>
    dplyr::mutate(valid = TRUE, app = "iperf3", path = "symmetric", offloads = "off")
}

test_that("changes are against the same path without loss, in the same or the main block", {
  changes <- changes_with_loss(made_up_runs())
  of <- function(which) {
    changes$measured[changes$block == which & changes$algorithm == "cubic"]
  }
  expect_equal(c(of("main"), of("small")), c(-75, -20))
  expect_equal(unique(changes$n), 6)
})

test_that("without a baseline there is no change", {
  runs <- dplyr::filter(made_up_runs(), loss_percent > 0)
  expect_true(all(is.na(changes_with_loss(runs)$measured)))
})
