# A window that follows CUBIC's formula exactly, with three reductions.
made_up_window <- function() {
  phase <- function(from, w_max, seconds) {
    k <- cubic_k(w_max, from)
    cubic_window(seq(0, seconds, by = 0.05), w_max, k)
  }
  # Up to 100; down to 70, up to 98, which is below 100, and so 85 % of 98 next; and so on.
  first <- seq(10, 100, length.out = 40)
  second <- phase(70, 100, 3.7)
  third <- phase(0.7 * max(second), 0.85 * max(second), 6)
  c(first, second, third, 0.7 * max(third), 0.7 * max(third) + 1)
}

test_that("growth phases recover the simulated reductions, target and times", {
  window <- made_up_window()
  samples <- tibble::tibble(t_s = 0.05 * seq_along(window), cwnd_packets = window)
  phases <- growth_phases(samples)
  expect_equal(nrow(phases), 2)
  expect_equal(phases$peak, c(100, max(window[41:115])))
  expect_equal(phases$w_start, c(70, 0.7 * phases$peak[2]))
  # The second reduction is at a smaller window than the first: fast convergence.
  expect_equal(phases$w_max, c(100, 0.85 * phases$peak[2]))
  expect_equal(phases$k_s[1], (30 / 0.4)^(1 / 3))
  expect_true(is.na(phases$regained_s[1]))
  expect_equal(phases$regained_s[2], phases$k_s[2], tolerance = 0.05)
  expect_lt(max(phases$off_percent), 1e-6)
})

test_that("a flow without a reduction has no phases, and a linear start", {
  samples <- tibble::tibble(
    t_s = (0:40) / 10, cwnd_packets = 10 + 5 * (0:40) + 0.01 * (-1)^(0:40),
    ssthresh_packets = NA_real_
  )
  expect_equal(nrow(growth_phases(samples)), 0)
  line <- first_line(samples)
  expect_equal(c(line$slope_per_s, line$straightness), c(50, 1), tolerance = 1e-4)
  expect_true(is.na(line$slow_start_ended_packets))
})
