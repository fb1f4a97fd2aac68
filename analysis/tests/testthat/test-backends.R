# Make replicates of one cell on two backends.
measured <- function(virtual, containers) {
  n <- length(virtual)
  dplyr::bind_rows(
    conditions(block = rep("virtual", n)) |>
      dplyr::mutate(replicate = seq_len(n), valid = TRUE, goodput_mbit = virtual),
    conditions(block = rep("containers", n)) |>
      dplyr::mutate(replicate = seq_len(n), valid = TRUE, goodput_mbit = containers)
  )
}

test_that("replicates are paired by number, and the mean of their ratios is geometric", {
  found <- summarise_backend_ratios(backend_ratios(measured(c(1, 2, 3, 4, 5), c(2, 1, 3, 4, 5))))
  expect_equal(found$n, 5)
  expect_equal(found$ratio, 1)
  expect_lt(found$low, 1)
  expect_gt(found$high, 1)
})

test_that("a constant factor has an interval without width", {
  found <- summarise_backend_ratios(backend_ratios(measured(10 * 1:5, 9 * 1:5)))
  expect_equal(c(found$ratio, found$low, found$high), c(0.9, 0.9, 0.9))
})

test_that("replicates without a valid counterpart are not compared", {
  replicates <- measured(c(100, 300), c(100, 300))
  replicates$valid[1] <- FALSE
  expect_equal(backend_ratios(replicates)$replicate, 2)
})

test_that("a single pair has a ratio but no interval", {
  found <- summarise_backend_ratios(backend_ratios(measured(100, 110)))
  expect_equal(found$ratio, 1.1)
  expect_true(is.na(found$low))
})

test_that("a path on this machine's kernel is compared with the same path in virtual time", {
  bare <- function(block, goodput) {
    conditions(block = block, rtt_ms = 0, loss_percent = 0, buffer_packets = 20) |>
      dplyr::mutate(replicate = 1, valid = TRUE, goodput_mbit = goodput)
  }
  replicates <- dplyr::bind_rows(
    measured(100, 110), bare("bare", 8), bare("bare-host", 9), bare("slow-host", 7) |>
      dplyr::mutate(rtt_ms = 160)
  )
  found <- summarise_backend_ratios(backend_ratios(replicates))
  expect_equal(found$ratio[found$block == "bare-host"], 9 / 8)
  expect_setequal(found$block, c("containers", "bare-host"))
  expect_true("bare-host" %in% real_time_blocks)
  expect_false("containers" %in% real_time_blocks)
})

test_that("zero over zero gives no ratio", {
  found <- summarise_backend_ratios(backend_ratios(measured(c(0, 0), c(0, 1))))
  expect_true(is.na(found$ratio))
  expect_true(is.na(found$low))
  sparse <- summarise_backend_ratios(backend_ratios(measured(c(0, 2), c(1, 2))))
  expect_equal(sparse$ratio, 1.5)
  expect_true(is.na(sparse$high)) # of two pairs
})

test_that("cells on a single backend give no rows", {
  expect_equal(nrow(summarise_backend_ratios(backend_ratios(measured(1, 1)[1, ]))), 0)
})

test_that("a cell's condition names the axes that its block varies", {
  expect_equal(backend_condition(0, 0, 20, "none"), "20 packets")
  expect_equal(backend_condition(0, 0, 20, "cubic"), "20 packets, against cubic")
  expect_equal(backend_condition(160, 5, 30, "none"), "5 % loss")
})
