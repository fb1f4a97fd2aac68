summary_of <- function(code) {
  folder <- tempfile()
  dir.create(file.path(folder, "summary/x"), recursive = TRUE)
  before <- setwd(folder)
  on.exit(setwd(before))
  writeLines(c(
    paste0(
      "block,algorithm,loss_percent,rate_mbit,rtt_ms,buffer_packets,trace,statistic_over,metric,",
      "n,mean,mean_low,mean_high"
    ),
    "main,cubic,1,100,20,50,none,replicates,goodput_mbit,10,20,19,21",
    "main,bbr,1,100,20,50,none,replicates,goodput_mbit,10,90,89,91",
    "main,cubic,0,100,20,50,none,replicates,goodput_mbit,5,95,94,96",
    "more,cubic,0,100,20,50,none,replicates,goodput_mbit,3,10,9,11",
    "main,bbr,0,100,20,50,none,replicates,goodput_mbit,10,93,92.9,93.1"
  ), "summary/x/statistics.csv")
  force(code)
}
options <- c(CUBIC = "cubic", BBR = "bbr")

test_that("an option is chosen if its interval is better by more than 5 %", {
  row <- summary_of(decision("Loss", "x", "goodput_mbit", options, loss_percent == 1))
  expect_equal(row$Choose, "**BBR**")
  expect_equal(row$Compared, "CUBIC: 20 (19 to 21); BBR: 90 (89 to 91)")
  expect_equal(row$`Measured at`, "100 Mbit/s, 20 ms, 50 packets, 1 % loss, n = 10")
  less <- summary_of(decision(
    "Loss", "x", "goodput_mbit", options, loss_percent == 1,
    more_is_better = FALSE
  ))
  expect_equal(less$Choose, "**CUBIC**")
})

test_that("a small difference is no reason for a choice", {
  row <- summary_of(decision("None", "x", "goodput_mbit", options, loss_percent == 0))
  expect_equal(row$Choose, "either")
  expect_match(row$`Measured at`, "no loss, n = 5 to 10")
})

test_that("without both options, or the study, there is no decision", {
  expect_null(summary_of(decision("Lost", "x", "goodput_mbit", options, loss_percent == 7)))
  expect_null(summary_of(decision("Lost", "y", "goodput_mbit", options)))
})
