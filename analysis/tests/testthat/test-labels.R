test_that("names are spaced, in order, and near their lines", {
  expect_equal(spaced(c(3, 1, 2), 0.5), c(3, 1, 2))
  found <- spaced(c(5, 1.1, 1), 1)
  expect_equal(found, c(5, 1.55, 0.55))
  expect_equal(spaced(numeric(), 1), numeric())
  expect_equal(spaced(c(2, 2, 2), 1), c(1, 2, 3))
})

test_that("a label is above its point, or on a side without other points and labels", {
  expect_equal(label_side(c(0, 1, 2), c(0, 2, 1))$vjust, rep(-0.7, 3))
  # A point above, then a cross below, too, then one at the right.
  expect_equal(label_side(c(0, 50, 100), c(0, 50, 100), 50, 54)$vjust, c(-0.7, 1.6, -0.7))
  beside <- label_side(c(0, 50, 100), c(0, 50, 100), c(50, 50), c(54, 46))
  expect_equal(beside$hjust, c(0.5, -0.5, 0.5))
  beside <- label_side(c(0, 50, 100), c(0, 50, 100), c(50, 50, 54), c(54, 46, 50))
  expect_equal(beside$hjust, c(0.5, 1.5, 0.5))
  # The label of a point near the first one is not where that one's label is.
  expect_equal(label_side(c(50, 51, 0, 100), c(50, 50, 0, 100))$vjust[1:2], c(-0.7, 1.6))
  expect_equal(nrow(label_side(numeric(), numeric())), 0)
})

test_that("each line of each panel has an end, empty lines have none", {
  lines <- tidyr::crossing(x = 1:3, name = c("a", "b"), panel = c("p", "q")) |>
    dplyr::mutate(y = ifelse(name == "a", 10, 1000) * x, y = ifelse(x == 3 & name == "a", NA, y))
  ends <- line_ends(lines, "x", "y", "name", "panel", log_y = TRUE)
  expect_equal(nrow(ends), 4)
  expect_equal(sort(unique(ends$x)), c(2, 3))
  expect_equal(ends$at, ends$y)
  close <- line_ends(
    tibble::tibble(x = c(1, 1, 2, 2), y = c(1, 100, 10, 10), name = c("a", "b", "a", "b")),
    "x", "y", "name",
    log_y = TRUE, gap = 0.1
  )
  expect_equal(diff(log10(close$at)), 0.2)
  expect_equal(nrow(line_ends(lines[0, ], "x", "y", "name", "panel")), 0)
})

test_that("spacing of names follows the panel's axis, which may start at zero", {
  lines <- tibble::tibble(
    x = 1, y = c(1, 1, 100, 100, 2, 200), name = c("a", "b", "a", "b", "c", "c"),
    panel = c("p", "p", "q", "q", "p", "q")
  )
  ends <- line_ends(lines, "x", "y", "name", "panel", gap = 0.5, axis_of = "panel")
  at <- split(ends$at, ends$panel)
  expect_equal(lapply(at, \(x) diff(sort(x))), list(p = c(0.5, 0.75), q = c(50, 75)))
  ends <- line_ends(lines[1:2, ], "x", "y", "name", gap = 0.5, also = 0)
  expect_equal(diff(ends$at), 0.5)
})

test_that("line names are coloured or grey and are not part of the figure's data", {
  lines <- tibble::tibble(x = c(1, 2, 1, 2), y = 1:4, line = c("a", "a", "b", "b"))
  drawn <- function(...) {
    figure <- ggplot2::ggplot(lines, ggplot2::aes(x, y, colour = line)) +
      ggplot2::geom_line() +
      name_lines(line_ends(lines, "x", "y", "line"), "x", "line", toupper, ...)
    expect_false("name_at_end" %in% names(figure_data(figure)))
    ggplot2::layer_data(figure, 2)
  }
  expect_equal(trimws(drawn()$label, whitespace = "[\\h\\v]"), c("A", "B"))
  expect_equal(length(unique(drawn()$colour)), 2)
  expect_equal(length(unique(drawn(coloured = FALSE)$colour)), 1)
})
