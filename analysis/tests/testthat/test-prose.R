bbr <- c(900, 800)
cubic <- c(230, 100)
none <- numeric()

test_that("a sentence stands where its assertion holds, and the other where not", {
  expect_equal(tell(bbr > cubic, "BBR is faster.", "It is not."), "BBR is faster.")
  expect_equal(tell(bbr > c(100, 900), "BBR is faster.", "It is not."), "It is not.")
  expect_equal(tell(all(bbr > cubic) && max(cubic) < 1, "Both.", "Not both."), "Not both.")
})

test_that("of a number that is missing nothing is said", {
  expect_equal(tell(c(NA, 2) > 1, "More.", "Less."), "")
  expect_equal(tell(c(NA, 0) > 1, "More.", "Less."), "Less.")
  expect_equal(tell(none > 1, "More.", "Less.", "Nothing."), "Nothing.")
  expect_equal(tell(all(none > 1), "More.", "Less."), "")
  expect_equal(tell(all(bbr > 1) && all(none > 1), "More.", "Less."), "")
})

test_that("numbers in braces are looked up where the sentence stands", {
  ours <- 7
  expect_equal(tell(ours > 1, "It is {short(ours)}.", "{stop('never looked at')}"), "It is 7.")
  expect_error(tell(ours > 1, "It is {none}."), "`none` .* one word or number, found none")
})

test_that("a false one without another text stops, with the numbers", {
  expect_error(
    tell(all(bbr > 850) && max(cubic) < 300, "BBR is fast."),
    "\"BBR is fast.\" needs `all\\(bbr > 850\\).*`, found bbr = 900, 800, max\\(cubic\\) = 230",
    class = "losslab_untrue"
  )
  expect_error(tell(bbr, "BBR."), "must be true or false, found bbr = 900, 800")
})

test_that("a draft shows what is not true in its place", {
  Sys.setenv(LOSSLAB_DRAFT = "1")
  on.exit(Sys.unsetenv("LOSSLAB_DRAFT"))
  expect_match(tell(bbr < cubic, "CUBIC is fast."), "^\\*\\*\\(the sentence .* needs")
})

test_that("what stops names chapter and line", {
  chapter <- file.path(tempdir(), "_x.qmd")
  on.exit(unlink(chapter))
  writeLines(c("# X", "", "`r tell(bbr < cubic, \"CUBIC has", "more.\")`"), chapter)
  expect_match(where_written("CUBIC has\nmore.", chapter), "_x.qmd, line 3: ")
  expect_equal(where_written("Elsewhere.", chapter), "")
})

test_that("a verdict has its text, or stops the build", {
  claims <- tibble::tibble(
    study = "x", claim = c("a", "b", "c"), verdict = c("differs", "not measured", "undecided"),
    measured = c(3.5, NA, 1), tolerance = "at most 2"
  )
  expect_equal(
    tell_verdict(claims, "x", "a", reproduced = "So it is.", differs = "Here it is {1 + 1}."),
    "Here it is 2."
  )
  expect_equal(tell_verdict(claims, "x", "b", reproduced = "So it is."), "")
  expect_equal(tell_verdict(claims, "x", "c", undecided = "Open."), "Open.")
  expect_error(
    tell_verdict(claims, "x", "a", reproduced = "So it is."),
    "verdict `differs`, found measured = 3.5, at most 2"
  )
  expect_error(tell_verdict(claims, "x", "d", reproduced = "So it is."), "found 0 of x, d")
})
