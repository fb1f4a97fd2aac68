bbr <- c(900, 800)
cubic <- c(230, 100)
none <- numeric()

test_that("the assertion selects one of two sentences", {
  expect_equal(say(bbr > cubic, "BBR is faster.", "It is not."), "BBR is faster.")
  expect_equal(say(bbr > c(100, 900), "BBR is faster.", "It is not."), "It is not.")
  expect_equal(say(all(bbr > cubic) && max(cubic) < 1, "Both.", "Not both."), "Not both.")
})

test_that("a missing number selects the text for missing numbers", {
  expect_equal(say(c(NA, 2) > 1, "More.", "Less."), "")
  expect_equal(say(c(NA, 0) > 1, "More.", "Less."), "Less.")
  expect_equal(say(none > 1, "More.", "Less.", "Nothing."), "Nothing.")
  expect_equal(say(all(none > 1), "More.", "Less."), "")
  expect_equal(say(all(bbr > 1) && all(none > 1), "More.", "Less."), "")
})

test_that("code in braces is evaluated in the caller's environment", {
  ours <- 7
  expect_equal(say(ours > 1, "It is {short(ours)}.", "{stop('never looked at')}"), "It is 7.")
  expect_error(say(ours > 1, "It is {none}."), "`none` .* one word or number, found none")
})

test_that("a false assertion without another text is an error with the numbers", {
  expect_error(
    say(all(bbr > 850) && max(cubic) < 300, "BBR is fast."),
    "\"BBR is fast.\" needs `all\\(bbr > 850\\).*`, found bbr = 900, 800, max\\(cubic\\) = 230",
    class = "losslab_false_sentence"
  )
  expect_error(say(bbr, "BBR."), "must be true or false, found bbr = 900, 800")
})

test_that("a draft shows the error in the sentence's place", {
  Sys.setenv(LOSSLAB_DRAFT = "1")
  on.exit(Sys.unsetenv("LOSSLAB_DRAFT"))
  expect_match(say(bbr < cubic, "CUBIC is fast."), "^\\*\\*\\(the sentence .* needs")
})

test_that("the error of a false sentence names chapter and line", {
  chapter <- file.path(tempdir(), "_x.qmd")
  on.exit(unlink(chapter))
  writeLines(c("# X", "", "`r say(bbr < cubic, \"CUBIC has", "more.\")`"), chapter)
  expect_match(locate_text("CUBIC has\nmore.", chapter), "_x.qmd, line 3: ")
  expect_equal(locate_text("Elsewhere.", chapter), "")
})

test_that("a verdict without a text is an error", {
  claims <- tibble::tibble(
    study = "x", claim = c("a", "b", "c"),
    verdict = c("not reproduced", "not measured", "inconclusive"),
    measured = c(3.5, NA, 1), tolerance = "at most 2"
  )
  expect_equal(
    say_verdict(
      claims, "x", "a",
      reproduced = "So it is.", not_reproduced = "Here it is {1 + 1}."
    ),
    "Here it is 2."
  )
  expect_equal(say_verdict(claims, "x", "b", reproduced = "So it is."), "")
  expect_equal(say_verdict(claims, "x", "c", inconclusive = "Open."), "Open.")
  expect_error(
    say_verdict(claims, "x", "a", reproduced = "So it is."),
    "verdict `not reproduced`, found measured = 3.5, at most 2"
  )
  expect_error(say_verdict(claims, "x", "d", reproduced = "So it is."), "claim x, d, found 0")
})

test_that("a key that no study declares is an error with its sentence", {
  declared <- file.path(tempdir(), "declared.csv")
  writeLines(c("column,value", "algorithm,bbr", "algorithm,cubic", "loss_percent,0.1"), declared)
  before <- setwd(tempdir())
  on.exit(setwd(before))
  on.exit(unlink(declared), add = TRUE)
  goodput <- tibble::tibble(algorithm = "bbr", loss_percent = 1, mean = 900)
  mean_of <- function(which) look_up(goodput, "mean", algorithm == which)
  expect_equal(mean_of("bbr"), 900)
  # Declared, but not in this campaign.
  expect_equal(say(mean_of("cubic") > 1, "Fast."), "")
  expect_equal(say(goodput$mean[goodput$loss_percent == 0.1] > 1, "Fast."), "")
  expect_error(
    say(mean_of("bbrr") > 1, "Fast.", "Slow."),
    "the sentence \"Fast.\" names the algorithm bbrr, which no study declares"
  )
  expect_error(
    say(goodput$mean[goodput$loss_percent == 0.2] > 1, "Fast.", "Slow."), "loss_percent 0.2"
  )
  expect_error(say(goodput$maen > 1, "Fast.", "Slow."), "names an unknown column.*maen")
  expect_error(say(TRUE, "It is {look_up(goodput, 'maen')}."), "names the column maen")
  expect_error(mean_of("bbrr"), class = "losslab_undeclared")
})

test_that("sentences without numbers are listed", {
  file <- tempfile()
  on.exit(unlink(file))
  expect_equal(unmeasured_text(character(), file), "")
  note_unmeasured("It is {x} times as fast (@fig-speed).")
  expect_true("It is ... times as fast (fig-speed)." %in% unmeasured$sentences)
  text <- unmeasured_text(c("a.qmd, line 3: One.", "Two."), file)
  expect_match(text, "these sentences .2.")
  expect_equal(readLines(file), c("a.qmd, line 3: One.", "Two."))
})
