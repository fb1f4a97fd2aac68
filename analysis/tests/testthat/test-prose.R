bbr <- c(900, 800)
cubic <- c(230, 100)
none <- numeric()

in_campaign <- function(recorded, code) {
  report$recorded <- recorded
  on.exit(report$recorded <- FALSE)
  untrue$rows <- NULL
  force(code)
}

test_that("a sentence is printed if its assertion holds", {
  expect_equal(say(bbr > cubic, "BBR is faster."), "BBR is faster.")
  expect_equal(say(all(bbr > cubic) && max(cubic) > 1, "Both."), "Both.")
})

test_that("a sentence without its numbers is not printed", {
  expect_equal(say(c(NA, 2) > 1, "More."), "")
  expect_equal(say(none > 1, "More."), "")
  expect_equal(say(all(none > 1), "More."), "")
  expect_equal(say(all(bbr > 1) && all(none > 1), "More."), "")
})

test_that("code in braces is evaluated in the caller's environment", {
  ours <- 7
  expect_equal(say(ours > 1, "It is {short(ours)}."), "It is 7.")
  expect_error(say(ours > 1, "It is {none}."), "`none` .* one word or number, found none")
})

test_that("a false assertion stops the report of a recorded campaign, with the numbers", {
  expect_error(
    in_campaign(TRUE, say(all(bbr > 850) && max(cubic) < 300, "BBR is fast.")),
    "\"BBR is fast.\" needs `all\\(bbr > 850\\).*`, found bbr = 900, 800, max\\(cubic\\) = 230",
    class = "losslab_false_sentence"
  )
  expect_error(say(bbr, "BBR."), "must be true or false, found bbr = 900, 800")
})

test_that("a false assertion marks its sentence in other campaigns", {
  expect_equal(
    in_campaign(FALSE, say(c(NA, 0) > 1, "It has {short(bbr[1])} (@fig-x).")),
    "[Not shown in this campaign (@tbl-untrue, no. 1):]{.untrue} \"It has 900 (@fig-x).\""
  )
  expect_equal(untrue$rows$Sentence, "It has 900 (fig-x).")
  expect_equal(untrue$rows$Needs, "`c(NA, 0) > 1`")
  expect_match(in_campaign(FALSE, say(FALSE, "It is {none}.")), "\"It is ....\"")
})

test_that("a draft shows the error in the sentence's place", {
  Sys.setenv(LOSSLAB_DRAFT = "1")
  on.exit(Sys.unsetenv("LOSSLAB_DRAFT"))
  expect_match(
    in_campaign(TRUE, say(bbr < cubic, "CUBIC is fast.")), "^\\*\\*\\(the sentence .* needs"
  )
})

test_that("the error of a false sentence names chapter and line", {
  chapter <- file.path(tempdir(), "_x.qmd")
  on.exit(unlink(chapter))
  writeLines(c("# X", "", "`r say(bbr < cubic, \"CUBIC has", "more.\")`"), chapter)
  expect_match(locate_text("CUBIC has\nmore.", chapter), "_x.qmd, line 3: ")
  expect_equal(locate_text("Elsewhere.", chapter), "")
})

test_that("a verdict is that of one claim, and missing if it is not measured", {
  claims <- tibble::tibble(
    study = "x", claim = c("a", "b"), verdict = c("not reproduced", "not measured")
  )
  expect_equal(verdict(claims, "x/a"), "not reproduced")
  expect_equal(say(verdict(claims, "x/a") == "not reproduced", "Not so."), "Not so.")
  expect_equal(say(verdict(claims, "x/b") == "reproduced", "So it is."), "")
  expect_error(verdict(claims, "x/d"), "must name a claim of .*, found x/d")
})

test_that("a key that no study declares is an error with its sentence", {
  report$declared <- list(algorithm = c("bbr", "cubic"), loss_percent = "0.1")
  on.exit(report$declared <- list())
  goodput <- tibble::tibble(algorithm = "bbr", loss_percent = 1, mean = 900)
  mean_of <- function(which) look_up(goodput, "mean", algorithm == which)
  expect_equal(mean_of("bbr"), 900)
  # Declared, but not in this campaign.
  expect_equal(say(mean_of("cubic") > 1, "Fast."), "")
  expect_equal(say(goodput$mean[goodput$loss_percent == 0.1] > 1, "Fast."), "")
  expect_error(
    say(mean_of("bbrr") > 1, "Fast."),
    "the sentence \"Fast.\" names the algorithm bbrr, which no study declares"
  )
  expect_error(
    say(goodput$mean[goodput$loss_percent == 0.2] > 1, "Fast."), "loss_percent 0.2"
  )
  expect_error(say(goodput$maen > 1, "Fast."), "names an unknown column.*maen")
  expect_error(say(TRUE, "It is {look_up(goodput, 'maen')}."), "names the column maen")
  expect_error(mean_of("bbrr"), class = "losslab_undeclared")
})

test_that("sentences without numbers are named by their place and words", {
  note_unmeasured("It is {x} times as fast (@fig-speed).")
  expect_true("It is ... times as fast (fig-speed)." %in% unmeasured$sentences)
})
