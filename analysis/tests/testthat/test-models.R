test_that("the models give the values of their papers", {
  # One packet of 1448 bytes per RTT of 0.1 s is 0.11584 Mbit/s; sqrt(1.5 / 0.01) = 12.247 of them.
  expect_equal(mathis_mbit(0.01, 0.1), 0.11584 * sqrt(150), tolerance = 1e-9)
  # For small losses, timeouts do not matter and Padhye's formula is Mathis'.
  expect_equal(padhye_mbit(1e-6, 0.1) / mathis_mbit(1e-6, 0.1), 1, tolerance = 0.01)
  expect_lt(padhye_mbit(0.05, 0.1), 0.75 * mathis_mbit(0.05, 0.1))
  # Yang and Lam: for small losses sqrt(alpha (1 + beta) / (2 (1 - beta) p)) packets per RTT.
  gentle <- padhye_mbit(1e-6, 0.1, beta = 7 / 8)
  expect_equal(gentle / 0.11584, sqrt(7.5e6), tolerance = 0.01)
  expect_equal(response_mbit("gaimd", 1e-6, 0.1), gentle)
  expect_equal(
    padhye_mbit(0.01, 0.1, alpha = 4) / padhye_mbit(0.01, 0.1), 2, tolerance = 0.02
  )
  # RFC 9438, table 1: RTT 0.1 s, p = 10^-4 gives an average window of 187 segments with C = 0.4.
  expect_equal(cubic_mbit(1e-4, 0.1) / 0.11584, 187, tolerance = 0.02)
})

# Mean of CUBIC's window (RFC 9438, at least that of Reno) over round trips, over that
# of the formula: with losses at equal distances, or each packet's on its own with probability p.
cubic_over_formula <- function(p, rtt_s, random, converges_fast, round_trips = 50000) {
  set.seed(1, kind = "Mersenne-Twister")
  draws <- stats::runif(round_trips)
  window <- reno <- top <- last <- 20
  wait <- since_s <- sent <- total <- 0
  for (i in seq_len(round_trips)) {
    total <- total + window
    sent <- sent + window
    since_s <- since_s + rtt_s
    lost <- if (random) draws[i] < 1 - (1 - p)^window else sent >= 1 / p
    if (lost) {
      sent <- sent - 1 / p
      top <- if (converges_fast && window < last) window * (1 + 0.7) / 2 else window
      last <- window
      window <- reno <- 0.7 * window
      wait <- (max(top - window, 0) / 0.4)^(1 / 3)
      since_s <- 0
    } else {
      reno <- reno + 3 * (1 - 0.7) / (1 + 0.7)
      wanted <- 0.4 * (since_s + rtt_s - wait)^3 + top
      window <- max(reno, min(max(wanted, window), 1.5 * window))
    }
  }
  payload_bytes * 8 / 1e6 * total / round_trips / rtt_s / cubic_mbit(p, rtt_s)
}

# The same ratio in the limit of small losses, where the window is CUBIC's function of time and the
# number of packets between losses is exponential.
gain_of_random_losses <- function(converges_fast, losses = 4000, p = 1e-4, rtt_s = 0.1) {
  set.seed(1, kind = "Mersenne-Twister")
  window <- 100
  last <- duration_s <- 0
  packets <- stats::rexp(losses, p)
  for (sent in packets) {
    top <- if (converges_fast && window < last) window * (1 + 0.7) / 2 else window
    last <- window
    wait <- (max(top - 0.7 * window, 0) / 0.4)^(1 / 3)
    after <- function(t) (0.4 / 4 * ((t - wait)^4 - wait^4) + top * t) / rtt_s - sent
    since_s <- stats::uniroot(after, c(0, 1000), tol = 1e-9)$root
    duration_s <- duration_s + since_s
    window <- 0.4 * (since_s - wait)^3 + top
  }
  payload_bytes * 8 / 1e6 * sum(packets) / duration_s / cubic_mbit(p, rtt_s)
}

test_that("random losses give CUBIC as much more as Poojary and Sharma derive", {
  expect_equal(gain_of_random_losses(FALSE), 1.3004 / 1.0538, tolerance = 0.02)
  expect_equal(gain_of_random_losses(TRUE), random_loss_gain, tolerance = 0.02)
})

test_that("a window in round trips gains about as much from random losses", {
  for (cell in list(c(0.0003, 0.1), c(0.001, 0.2))) {
    expect_equal(cubic_over_formula(cell[1], cell[2], FALSE, FALSE), 1, tolerance = 0.06)
    fast <- cubic_over_formula(cell[1], cell[2], TRUE, TRUE)
    expect_gt(fast, 1.12)
    slow <- cubic_over_formula(cell[1], cell[2], TRUE, FALSE)
    expect_gt(slow, fast)
    expect_lt(slow, 1.3)
  }
})

test_that("the reason of the claim on Reno's response has the number of Mathis' formula", {
  expect_equal(mathis_mbit(0.02, 0.02), 5.02, tolerance = 0.001)
})

test_that("BBR's window is two bandwidth-delay products and three bursts", {
  # At 1 Gbit/s, a millisecond has more than 64 KiB; at 1.5 Mbit/s, less than two packets.
  expect_equal(bbr_burst_packets(c(1000, 30, 1.5)), c(45, 2, 2))
  expect_equal(bbr_window_packets(1000, 0.42), 206)
  expect_equal(bbr_window_packets(30, 15), 82)
})

test_that("pooled losses are compared with the binomial distribution", {
  replicates <- conditions(
    cell = "a", valid = c(TRUE, TRUE, FALSE), loss_percent = 1,
    loss_offered_packets = c(5000, 5000, 1e6), loss_packets = c(60, 60, 0)
  )
  found <- pooled_loss(replicates)
  expect_equal(found$lost, 120)
  expect_equal(found$z, (120 - 100) / sqrt(10000 * 0.01 * 0.99))
})

test_that("utilisation is relative to the rate less framing", {
  expect_equal(theoretical_goodput(1000), 956.407, tolerance = 1e-5)
  expect_equal(theoretical_goodput(9014, mtu_bytes = 9000, ip_bytes = 40), 8928)
  expect_equal(bdp_packets(100, 20), 250000 / 1514)
})

test_that("a loss-based flow's share beside BBR grows with the buffer", {
  # Ware et al., IMC 2019: 1/2 - 1/8 - 4/132.
  expect_equal(ware_share(4, 132), 0.3447, tolerance = 1e-3)
  expect_gt(ware_share(8, 264), ware_share(4, 132))
})

test_that("a transfer takes 1.5 RTT and its bytes on the wire over the rate", {
  # 4 kB are three packets of 1514, 1514 and 1170 bytes, after a SYN of 74 and an ACK of 66.
  expect_equal(transfer_s(4, 1, 2), 0.003 + 8 * (74 + 66 + 1514 + 1514 + 1170) / 1e6)
  expect_equal(wire_bytes(1e3 * c(1.448, 2.896, 144.8)), c(1, 2, 100) * 1514)
  expect_equal(response_s(2.8, 0.5, 5), 0.005 + 8 * (1514 + 1418) / 0.5e6)
})

test_that("the time beyond physics is that of the app's transfers, in packets", {
  rows <- conditions(
    app = c("stream", "stream", "iperf3"), size_kb = c(1.448, 0, 0), response_kb = c(0, 1.448, 0),
    rate_mbit = 1, rtt_ms = 10
  ) |>
    with_columns(measured_metrics) |>
    dplyr::mutate(
      completion_s = c(transfer_s(1.448, 1, 10) + 1514 * 8e-6, NA, 3),
      response_median_ms = c(NA, 1e3 * response_s(1.448, 1, 10), NA)
    )
  expect_equal(derive_metrics(rows)$transfer_excess_packets, c(1, 0, NA))
})
