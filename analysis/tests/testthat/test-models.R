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

test_that("pooled losses are compared with the binomial distribution", {
  replicates <- conditions(
    cell = "a", valid = c(TRUE, TRUE, FALSE), loss_percent = 1,
    loss_offered_packets = c(5000, 5000, 1e6), loss_packets = c(60, 60, 0)
  )
  found <- pooled_loss(replicates)
  expect_equal(found$lost, 120)
  expect_equal(found$z, (120 - 100) / sqrt(10000 * 0.01 * 0.99))
})

test_that("utilisation is a share of what the framing leaves", {
  expect_equal(theoretical_goodput(1000), 956.407, tolerance = 1e-5)
  expect_equal(bdp_packets(100, 20), 250000 / 1514)
})
