families <- data.frame(
  claim = paste0("loss/", c("within", "both", "first", "moved")),
  first = c("reproduced", "inconclusive", "inconclusive", "not reproduced"),
  second = c("reproduced", "inconclusive", "reproduced", "not reproduced"),
  explained = c("agrees", "scatter", "", "difference")
)
claims <- tibble::tibble(
  study = "loss", claim = c("within", "both", "first", "moved", "new"), evidence = "not fitted",
  cause = c("", "scatter", "scatter", "difference", "scatter")
)

test_that("causes count only if they hold with both families of seeds", {
  expect_equal(lasting_causes(claims, families), c("", "scatter", "", "difference", ""))
  expect_equal(lasting_causes(claims, data.frame()), rep("", 5))
})

test_that("verdicts that differ between the families are listed", {
  text <- families_text(families)
  expect_match(text, "1 of 4 recorded verdicts are different.", fixed = TRUE)
  expect_match(text, "- loss/first: inconclusive, then reproduced", fixed = TRUE)
  expect_false(grepl("loss/both", text))
  expect_equal(families_text(data.frame()), "")
})
