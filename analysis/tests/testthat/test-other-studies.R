test_that("tables of studies that were not measured have no rows", {
  folder <- tempfile()
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  path <- file.path(folder, "kernels_successor.csv")
  mbit <- function(a, l) {
    look_up(read_study_table(path), "mean", algorithm == a, loss_percent == l)
  }
  expect_identical(mbit("bbr3", 5), NA)
  expect_identical(say(mbit("bbr3", 5) < 1, "slow"), "")
  writeLines(c("algorithm,loss_percent,mean", "bbr3,5,307"), path)
  expect_equal(mbit("bbr3", 5), 307)
})
