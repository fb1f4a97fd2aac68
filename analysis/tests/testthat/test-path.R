# Rows of a campaign's table of cells; one is not measured.
made_up_cells <- function(trace) {
  tibble::tibble(
    cell = c("a", "b", NA), trace = trace, rate_mbit = c(10, 1000, 5000), rtt_ms = c(20, 40, 500),
    buffer_packets = c(66, 1e6, 7), loss_percent = c(0, 1, 50)
  )
}

test_that("the drawn path has the ranges of the measured cells without a trace", {
  values <- path_values(made_up_cells(c("none", "none", "none")))
  expect_equal(values$rate, "10 to 1000 Mbit/s")
  expect_equal(values$rtt, "20 to 40 ms")
  values <- path_values(made_up_cells(c("none", "cellular", "none")))
  expect_equal(values$rate, "10 Mbit/s")
  expect_equal(values$buffer, "66 packets")
})

test_that("if all cells follow a trace, the path has their RTT, and the trace's rate", {
  values <- path_values(made_up_cells("cellular"))
  expect_equal(values$rate, "that of the trace")
  expect_equal(values$rtt, "20 to 40 ms")
  expect_equal(values$loss, "0 to 1 %")
})
