test_that("alpha and beta are compared with TCP's own if a campaign varies them", {
  scores <- tibble::tibble(
    scheme = c("aimd,rtt_gain=4,add=1,multiply=2", "aimd,alpha=0.0625", "aimd,beta=0.5"),
    mean_power = c(13.4, 14.3, 13.5), low_power = mean_power - 1, high_power = mean_power + 1
  )
  none <- scores[0, ]
  expect_match(alpha_beta_text(scores, none), "14.3 .13.3 to 15.3. .alpha=0.0625., .* not contra")
  scores$high_power[1] <- 13.2
  expect_match(alpha_beta_text(scores, none), "13.4 .12.4 to 13.2.: there is a better value.")
  expect_match(alpha_beta_text(scores[1, ], none), "does not vary alpha and beta")
})

test_that("the scores on the source's own trace are said only if it was measured", {
  own <- tibble::tibble(
    scheme = "timely", mean_throughput = 2, mean_signal_delay = 50, mean_power = 40,
    published_mbit = 4, published_signal_ms = 100, published_quotient = 40
  )
  expect_match(on_own_trace_text(own), "0.50 for throughput, 0.50 .* and 1.00 for power")
  expect_match(on_own_trace_text(own[0, ]), "not judged")
})
