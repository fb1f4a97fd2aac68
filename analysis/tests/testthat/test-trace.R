in_folder <- function(code) {
  folder <- tempfile()
  dir.create(folder)
  before <- setwd(folder)
  for (place in c("summary/x", "tables/x", "figures/x")) dir.create(place, recursive = TRUE)
  on.exit(setwd(before))
  writeLines(c(
    "study,block,cell,algorithm,loss_percent,n_valid", "x,main,a,cubic,0.0,3",
    "x,main,b,cubic,1.0,5", "x,main,c,bbr,1.0,0", "x,fair,d,cubic,0.0,5", "x,gone,,,,"
  ), "summary/x/cells.csv")
  writeLines(c(
    "cell,replicate,valid", "a,0,FALSE", "a,1,TRUE", "b,0,TRUE", "c,0,FALSE", "d,0,TRUE"
  ), "summary/x/replicates.csv")
  writeLines(c("algorithm,loss_percent,mean", "cubic,1,2.5", "bbr,1,3.5"), "tables/x/rows.csv")
  writeLines(c("algorithm,mean", "cubic,0.99"), "tables/x/other.csv")
  writeLines(c("cell", "a", "b"), "figures/x/lines.cells.csv")
  writeLines(c("study,percent", "x,5"), "tables/other_seeds.csv")
  force(code)
}

test_that("the line below a figure links its files, script, cells and a rerun", {
  line <- in_folder(trace_of(list(
    label = "fig-lines", code = 'knitr::include_graphics("figures/x/lines.svg")'
  )))
  for (words in c(
    "[CSV](../figures/x/lines.csv)", "[PDF](../figures/x/lines.pdf)",
    "code: [x/figures/lines.R](scripts/x/figures/lines.R)",
    "[2 cells](explorer.html#study=x), n = 3 to 5", "repeat: `losslab rerun results/cells/x/a/1`",
    " \u00b7 [open in the explorer](explorer.html#a=x/a/1)]{.web}", "]{.trace}"
  )) {
    expect_true(grepl(words, line, fixed = TRUE), label = words)
  }
})

test_that("the line below a table links its chunk's data and the matching cells", {
  chunk <- list(label = "tbl-rows", code = "rows", data = "tables/x/rows, summary/x/cells")
  line <- in_folder(trace_of(chunk))
  # The only cell with a loss of 1 % and a valid run.
  expect_identical(line, paste0(
    "\n\n[data: [rows.csv](../tables/x/rows.csv), [cells.csv](../summary/x/cells.csv), ",
    "[LaTeX](tables/tbl-rows.tex) \u00b7 code: [x/tables.R](scripts/x/tables.R) \u00b7 ",
    "[1 cell](explorer.html#study=x), n = 5[ \u00b7 repeat: ",
    "`losslab rerun results/cells/x/b/0` \u00b7 ",
    "[open in the explorer](explorer.html#a=x/b/0)]{.web}]{.trace}\n"
  ))
})

test_that("a chunk can name the cells of a table", {
  cells <- "block=fair gone, algorithm=cubic"
  options <- list(label = "tbl-fair", code = "", data = "tables/x/other", cells = cells)
  line <- in_folder(trace_of(options))
  expect_true(grepl("[open in the explorer](explorer.html#a=x/d/0)", line, fixed = TRUE))
})

test_that("chapters without a study have a script of their name", {
  for (options in list(
    list(label = "fig-paths", code = 'include_graphics("figures/other_paths.svg")'),
    list(label = "tbl-seeds", code = "", data = "tables/other_seeds")
  )) {
    line <- in_folder(trace_of(options))
    expect_true(grepl("code: [compare.R](scripts/compare.R)]", line, fixed = TRUE))
  }
})

test_that("chunks without a study's data have no line", {
  for (label in c("tbl-claims", "fig-none", "setup")) {
    expect_identical(in_folder(trace_of(list(label = label, code = "show_claims(claims)"))), "")
  }
})
