test_that("names are apart, in their order, and as near to their lines as that allows", {
  expect_equal(apart(c(3, 1, 2), 0.5), c(3, 1, 2))
  found <- apart(c(5, 1.1, 1), 1)
  expect_equal(found, c(5, 1.55, 0.55))
  expect_equal(apart(numeric(), 1), numeric())
  expect_equal(apart(c(2, 2, 2), 1), c(1, 2, 3))
})

test_that("each line of each panel has an end, and lines of nothing have none", {
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
