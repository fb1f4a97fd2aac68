test_that("missing cells are listed by block: not run, partly or fully, or without an instrument", {
  cells <- tibble::tibble(
    study = "x", block = c("main", "main", "main", "rest", "there", "late", "late"),
    cell = c("a", "b", NA, NA, "c", "d", "e"),
    n_replicates = c(3, 3, NA, NA, 0, 0, 0), n_valid = c(3, 0, NA, NA, 0, 0, 0),
    reasons = c(NA, "no clock", NA, NA, "no engine", "no time", "no time"),
    n_left_out = c(NA, NA, 4, 2, NA, NA, NA)
  )
  words <- paste(missing_cells_lines(cells), collapse = "\n")
  expect_match(words, "Block `main`: 4 of its 6 cells are not part of this campaign", fixed = TRUE)
  expect_match(words, "x: Block `rest` is not part of this campaign.", fixed = TRUE)
  expect_match(words, "no valid replicate in 1 of 2 cells: `b`. invalid: no clock", fixed = TRUE)
  expect_match(words, "no valid replicate in 1 cell: `c`. not measured: no engine", fixed = TRUE)
  # A whole block has no names.
  expect_match(
    words, "Block `late`: no valid replicate in 2 cells. not measured: no time.",
    fixed = TRUE
  )
  expect_identical(missing_cells_lines(cells[1, ]), character())
})

test_that("the subtitle says which hosts were containers", {
  write <- function(hosts) {
    path <- tempfile(fileext = "_cells.csv")
    readr::write_csv(tibble::tibble(study = "s", cell = "c", hosts = hosts), path)
    path
  }
  expect_identical(subtitle_of_hosts(write(c("processes", NA))), "")
  expect_identical(
    subtitle_of_hosts(write("containers")), ", in Docker containers wired by Containernet"
  )
  expect_match(subtitle_of_hosts(write(c("containers", "processes"))), "\\(1 of 2 cells\\)$")
})

test_that("a figure with a note on missing cells keeps its legend", {
  figure <- ggplot2::ggplot(tibble::tibble(x = 1:2, y = 1:2, flow = c("first one", "second one"))) +
    ggplot2::geom_point(ggplot2::aes(x, y, colour = flow))
  path <- tempfile(fileext = ".svg")
  save_figure(figure, path, 5, tibble::tibble(block = "main"))
  drawn <- paste(readLines(path), collapse = "")
  expect_match(drawn, "second one")
  expect_match(drawn, "Missing cells, without a valid replicate, by block: main")
})
