history <- tibble::tibble(
  study = "loss", claim = c("a", "a", "b", "b", "b"),
  date = c("2026-01-01", "2026-01-02", "2026-01-01", "2026-01-03", "2026-01-04"),
  limit = c("at most 1", "at most 1", "at most 1", "at most 2", "at most 1"),
  results_seen = c("unknown", "yes", "unknown", "yes", "yes"), effect = NA,
  why = c("First.", "Other cells.", "First.", "More.", "Back.")
)

test_that("versions of a limit are counted and shown in their order", {
  versions <- versions_of_limits(history)
  expect_equal(versions$n, c(1, 3))
  expect_equal(versions$versions[2], "at most 1; at most 2; at most 1")
  expect_equal(versions$since, rep("2026-01-01", 2))
  expect_equal(versions$why[2], "Back.")
  expect_match(history_text(versions), "^1 of 2 limits have more than one version, 1 of them")
})

test_that("verdicts of two families of seeds are compared only if both are recorded", {
  expect_null(read_families("gone.tsv", "gone-too.tsv"))
  expect_equal(families_text(NULL), "")
  families <- tibble::tibble(
    study = "loss", claim = c("a", "b", "c"),
    verdict_first = c("reproduced", "reproduced", "inconclusive"),
    verdict_second = c("reproduced", "not reproduced", "reproduced"),
    cause_first = c("none", "none", "scatter"), cause_second = c("none", "difference", "none")
  )
  text <- families_text(families)
  expect_match(text, "2 of 3 recorded verdicts are different; 1 of them are the opposite.")
  expect_match(text, "- loss/b: reproduced, then not reproduced", fixed = TRUE)
  expect_false(grepl("loss/a", text))
  expect_match(text, "the cause of 1 verdicts with the first family and of 1 with the second.")
})

test_that("causes count only if they hold with both families of seeds", {
  families <- tibble::tibble(
    study = "loss", claim = c("within", "both", "first", "second", "once", "moved"),
    verdict_first = c("reproduced", rep("inconclusive", 4), "not reproduced"),
    verdict_second = c("reproduced", rep("inconclusive", 3), "reproduced", "not reproduced"),
    cause_first = c("none", "scatter", "scatter", "none", "scatter", "difference"),
    cause_second = c("none", "scatter", "none", "scatter", "none", "difference")
  )
  claims <- tibble::tibble(
    study = "loss", claim = c(families$claim, "new"), evidence = "predicted",
    cause = c("", "scatter", "scatter", "scatter", "scatter", "difference", "scatter")
  )
  expect_equal(
    lasting_causes(claims, families), c("", "scatter", "", "", "scatter", "difference", "")
  )
  expect_equal(lasting_causes(claims, NULL), rep("", 7))
  text <- explained_text(claims, families)
  expect_match(text, "4 of 6 predictions (67 %) are within their margin or have", fixed = TRUE)
  expect_match(text, "Within the margin: 1; another value without the cause: 1; ", fixed = TRUE)
  expect_match(text, "inconclusive, and less scatter without the cause: 2.", fixed = TRUE)
  expect_equal(explained_text(claims, NULL), "")
})

test_that("verdicts are joined by claim", {
  folder <- tempfile()
  dir.create(folder)
  write <- function(name, verdicts) {
    rows <- tibble::tibble(study = "loss", claim = c("a", "b"), verdict = verdicts, cause = "none",
                           why = "So.")
    readr::write_tsv(rows, file.path(folder, name))
    file.path(folder, name)
  }
  found <- read_families(
    write("one.tsv", c("reproduced", "inconclusive")), write("two.tsv", c("reproduced", "x"))
  )
  expect_equal(found$verdict_second, c("reproduced", "x"))
})
