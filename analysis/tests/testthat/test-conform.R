# Verdicts on drafts' test cases.

write_record <- function(...) {
  path <- tempfile(fileext = ".json")
  its <- list(suite = "draft", algorithm = "bbr", kernel = "default", ...)
  jsonlite::write_json(its, path, auto_unbox = TRUE)
  path
}

run <- function(seed, verdict, why) {
  list(seed = seed, verdict = verdict, why = why, command = paste("losslab measure --seed", seed))
}

test_that("a case has the reason and the command of the first run with its verdict", {
  runs <- list(run(1, "PASS", "fine"), run(2, "FAIL", "wrong"), run(3, "FAIL", "worse"))
  one <- list(case = "4b", title = "Title", verdict = "FAIL", seeds = runs)
  rows <- read_conformed(write_record(cases = list(one)))
  expect_equal(rows$why, "wrong")
  expect_equal(rows$command, "losslab measure --seed 2")
  shown <- verdicts_side_by_side(rows, c(bbr = "BBR"))
  expect_match(shown$BBR, "fail]{.verdict .verdict-not-reproduced} (2 of 3)", fixed = TRUE)
})

test_that("a record without cases has the reason", {
  rows <- read_conformed(write_record(absent = "no kernel", cases = list()))
  expect_equal(rows$verdict, "not measured")
  expect_equal(rows$why, "no kernel")
  expect_equal(nrow(read_conformed(list())), 0)
})

test_that("numbers that decide have no words on steps and limits", {
  why <- "step 2: gain is 0.9, must be 1 (ours: 1 %); step 5: a -> b"
  expect_equal(deciding_numbers(why), "gain is 0.9, must be 1; a -> b")
})
