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
    verdict_second = c("reproduced", "not reproduced", "reproduced")
  )
  text <- families_text(families)
  expect_match(text, "2 of 3 recorded verdicts are different; 1 of them are the opposite.")
  expect_match(text, "- loss/b: reproduced, then not reproduced", fixed = TRUE)
  expect_false(grepl("loss/a", text))
})

test_that("verdicts are joined by claim", {
  folder <- tempfile()
  dir.create(folder)
  write <- function(name, verdicts) {
    rows <- tibble::tibble(study = "loss", claim = c("a", "b"), verdict = verdicts, why = "So.")
    readr::write_tsv(rows, file.path(folder, name))
    file.path(folder, name)
  }
  found <- read_families(
    write("one.tsv", c("reproduced", "inconclusive")), write("two.tsv", c("reproduced", "x"))
  )
  expect_equal(found$verdict_second, c("reproduced", "x"))
})
