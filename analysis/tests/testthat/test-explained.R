write_explained <- function(..., columns = "report,digest,settings,pairs,runs,verdict,headline") {
  path <- tempfile(fileext = ".csv")
  writeLines(c(columns, ...), path)
  path
}

answers <- write_explained(
  "studies/a/explain-a.yaml,12,57,0,400,explained,\"Explained by RTT x1.1: of 57, nothing else.\"",
  "studies/a/explain-b.yaml,34,22,1,500,consistent,\"Consistent with RTT +2 ms | x.\""
)

test_that("the answer comes with what was tried", {
  expect_match(
    explained_text("studies/a/explain-a.yaml", answers),
    "explain-a.yaml` tries 57 settings, and answers: \u201cExplained by RTT x1.1: of 57,",
    fixed = TRUE
  )
  expect_match(
    explained_text("studies/a/explain-b.yaml", answers), "tries 22 settings and 1 pair, and",
    fixed = TRUE
  )
  expect_identical(explained_verdict("studies/a/explain-b.yaml", answers), "consistent")
})

test_that("a report without an answer is an error", {
  expect_error(explained_text("studies/a/explain-c.yaml", answers), "explain-c.yaml, found 0")
})

test_that("files with other columns are refused", {
  wrong <- write_explained("1", columns = "a")
  expect_error(explained_row("studies/a/explain-a.yaml", wrong), "must have the columns")
})
