write_speed <- function(...) {
  path <- tempfile(fileext = ".csv")
  writeLines(c(...), path)
  path
}

speed <- read_speed(write_speed(
  "part,row,quantity,value", "machine,1,processor,Some CPU", "machine,1,runs,5",
  "rates,1,rate_mbit,10", "rates,1,algorithm,bbr", "rates,1,loss_percent,0",
  "rates,1,emulated_s_per_core_s,41.25", "rates,2,rate_mbit,10000", "rates,2,algorithm,bbr",
  "rates,2,loss_percent,0", "rates,2,emulated_s_per_core_s,"
))

test_that("values are single numbers or words", {
  expect_identical(speed_of(speed, "machine", "runs"), 5L)
  expect_identical(speed_of(speed, "machine", "processor"), "Some CPU")
  expect_error(speed_of(speed, "rates", "rate_mbit"), "found 2")
  expect_error(speed_of(speed, "fixed", "boot_s"), "found 0")
})

test_that("rates are rows and flows columns; missing rates are dashes", {
  lines <- show_speed(speed, c(bbr = "BBR"))
  expect_match(lines[1], "BBR, 0 %", fixed = TRUE)
  expect_match(lines[3], "|\\s*10\\|\\s*41.25\\|")
  expect_match(lines[4], "10,000")
  expect_match(lines[4], not_measured, fixed = TRUE)
})

test_that("files with other columns are refused", {
  expect_error(read_speed(write_speed("a,b", "1,2")), "must have the columns")
})
