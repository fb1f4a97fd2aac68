panels <- function() {
  rows <- expand.grid(x = 1:3, a = c("one", "two"), b = c("left", "right"))
  ggplot2::ggplot(rows, ggplot2::aes(x, x, colour = a)) +
    ggplot2::geom_point() +
    ggplot2::facet_grid(ggplot2::vars(a), ggplot2::vars(b), scales = "free_y")
}

test_that("panels are below one another, and keep their free axes", {
  plot <- stacked(panels())
  layout <- ggplot2::ggplot_build(plot)$layout$layout
  expect_equal(layout$ROW, 1:4)
  expect_true(all(layout$COL == 1))
  expect_equal(length(unique(layout$SCALE_X)), 1)
  expect_equal(length(unique(layout$SCALE_Y)), 4)
})

test_that("a figure is saved in both widths at the same size of print", {
  paths <- file.path(tempdir(), c("both.svg", "both.narrow.svg"))
  save_figure(panels(), paths, 8, tibble::tibble(cell = character()))
  width_cm <- vapply(paths, function(path) {
    text <- paste(readLines(path), collapse = " ")
    as.numeric(sub(".*viewBox='0 0 ([0-9.]+) .*", "\\1", text)) / 72 * 2.54
  }, 0)
  expect_equal(unname(width_cm), c(figure_width_cm, narrow_width_cm), tolerance = 0.01)
})

test_that("names at the ends of lines have room", {
  ends <- tibble::tibble(x = 1, y = 1, at = 1, name = "a name of twenty six signs")
  plot <- ggplot2::ggplot(ends, ggplot2::aes(x, y)) +
    ggplot2::geom_point() +
    name_lines(ends, "x", "name", coloured = FALSE) +
    ggplot2::scale_x_continuous(expand = room_for_names())
  right <- function(plot) plot$scales$get_scales("x")$expand[3]
  expect_gt(right(stacked(plot)), 1)
  # The wide version is unchanged.
  expect_equal(right(plot), 0.24)
})

test_that("a figure without data has a note in both widths", {
  path <- file.path(tempdir(), "none.narrow.svg")
  save_figure(ggplot2::ggplot(data.frame()), path, 8, tibble::tibble(cell = character()))
  expect_true(any(grepl("Nothing to draw", readLines(path))))
})
