test_that("references without a target are removed", {
  text <- c(
    "A table {#tbl-a} (@tbl-a, @tbl-b; @sec-c) (see @fig-d).",
    "Also (@tbl-b) and (@fig-d, @tbl-a).", "[@holm1979], @tbl-a-b and @fig-unknown; see @sec-c."
  )
  labels <- c("tbl-a", "tbl-a-b", "tbl-b", "sec-c", "fig-d")
  expect_equal(without_dangling(text, labels), paste(
    "A table {#tbl-a} (@tbl-a).", "Also and (@tbl-a).",
    "[@holm1979] and @fig-unknown; see a part that this campaign has no data for.",
    sep = "\n"
  ))
})

test_that("a sentence about a part without data is removed", {
  text <- c(
    "It is off. @sec-a compares 1.5 with", "2.5. The next stays.", "", "@tbl-b has all.", "",
    "@sec-c too."
  )
  expect_equal(
    without_dangling(text, c("sec-a", "tbl-b")),
    "It is off. The next stays.\n\n\n@sec-c too."
  )
})

test_that("a section whose exhibits have no data is removed", {
  lines <- c(
    "## A", "### Empty", "Text.", no_exhibit, "### Half", no_exhibit, "::: {#tbl-a}", "### Text",
    "No exhibit.", "## B", no_exhibit, "Kept.", "**Alone.** ", "", "**Begins.**", "a text"
  )
  expect_equal(without_empty_sections(lines), c(
    "## A", "### Half", "::: {#tbl-a}", "### Text", "No exhibit.", "## B", "Kept.", "",
    "**Begins.**", "a text"
  ))
})

test_that("everything that was not run is one list", {
  folder <- tempfile()
  dir.create(folder)
  before <- setwd(folder)
  on.exit(setwd(before))
  writeLines(c(
    "study,block,cell,n_replicates,n_valid,n_left_out,reasons", "x,main,a,3,3,,",
    "x,main,b,3,0,,late", "x,rest,,,,4,"
  ), "x_cells.csv")
  text <- not_run_text("x_cells.csv", c("_x.qmd, line 3: One.", "Two."))
  expect_match(text, "- x: Block `main`: no valid replicate in 1 of 2 cells: `b`. invalid: late.",
    fixed = TRUE
  )
  expect_match(text, "- x: Block `rest` is not part of this campaign.", fixed = TRUE)
  expect_match(text, "- Two.", fixed = TRUE)
  writeLines(c("study,block,cell,n_replicates,n_valid,reasons", "x,main,a,3,3,"), "x_cells.csv")
  not_printed$labels <- character()
  expect_equal(
    not_run_text("x_cells.csv", character()), "This campaign ran every cell of its studies."
  )
})
