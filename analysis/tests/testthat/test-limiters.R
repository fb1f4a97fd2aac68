cells <- tibble::tibble(
  app = c("iperf3", "iperf3", "ffmpeg", "iperf3", "datagram", "iperf3"),
  cwnd_limited_percent = c(98, 20, 5, 10, NA, 50),
  pacing_limited_percent = c(0, 75, 1, 5, NA, 30),
  rwnd_limited_percent = c(0, 7.4, 0, NA, NA, 38)
)

test_that("the largest share is named, and the receiver's window if it matters", {
  expect_equal(limiter_text(cells), c(
    "cwnd 98 %", "pacing 75 %, rwnd 7 %", "application 94 %", "recovery 85 %", "",
    "cwnd 50 %, rwnd 38 %"
  ))
})

test_that("any time of the receiver's window is named if pacing limits", {
  paced <- tibble::tibble(
    app = "iperf3", cwnd_limited_percent = c(1, 90), pacing_limited_percent = c(95, 1),
    rwnd_limited_percent = 0.8
  )
  expect_equal(limiter_text(paced), c("pacing 95 %, rwnd 0.8 %", "cwnd 90 %"))
})

test_that("a cell's limits are means over its valid replicates", {
  replicates <- tibble::tibble(
    study = "loss", cell = c("a", "a", "a", "b"), valid = c(TRUE, TRUE, FALSE, TRUE),
    cwnd_limited_percent = c(90, 100, 0, NA), pacing_limited_percent = c(0, 2, 0, NA)
  )
  found <- limits_of_cells(replicates)
  expect_equal(found$cwnd_limited_percent, c(95, NA))
  expect_equal(found$pacing_limited_percent, c(1, NA))
  # No run of the campaign has the kernel's count.
  expect_true(all(is.na(found$rwnd_limited_percent)))
})
