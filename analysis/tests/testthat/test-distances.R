judged_claims <- tibble::tibble(
  study = c("a", "a", "b", "b"), claim = c("one", "two", "three", "four"),
  published = c(200, NA, -4, 0), measured = c(150, 0.5, -5, 3), low = c(140, NA, -6, NA),
  high = c(160, NA, -4.5, NA), tolerance = c("within 20", "at most 1", "within 2", "at most 0"),
  verdict = c("not reproduced", "reproduced", "reproduced", "not reproduced")
)

test_that("distances are from the published number, or from the limit", {
  found <- claim_distances(judged_claims)
  expect_equal(found$distance, c(-25, -50, -25, Inf))
  expect_equal(found$low, c(-30, NA, -50, NA))
  expect_equal(found$least, c(-10, -Inf, -50, -Inf))
  expect_equal(found$most, c(10, 0, 50, 0))
  expect_equal(found$against, c("published", "limit", "published", "limit"))
})

test_that("the figure of all claims has an alternative text", {
  expect_equal(
    distances_text(claim_distances(judged_claims)),
    paste(
      "a: 1 reproduced and 1 not reproduced. b: 1 reproduced and 1 not reproduced.",
      "Largest distances of claims not reproduced: one (-25 %)."
    )
  )
  expect_equal(distances_text(claim_distances(judged_claims[0, ])), "Nothing is drawn.")
})

test_that("studies fill as few columns as fit on the first page, in order", {
  studies <- function(rows) factor(rep(letters[seq_along(rows)], rows))
  expect_equal(unname(distance_columns(studies(5))), 1)
  expect_equal(unname(distance_columns(studies(c(12, 16, 12, 12)))), c(1, 1, 2, 2))
  many <- c(12, 20, 14, 27, 14, 21, 10)
  found <- distance_columns(studies(many))
  expect_equal(unname(found), c(1, 1, 2, 2, 3, 3, 3))
  expect_lte(max(tapply(many, found, sum)), most_rows)
})

test_that("the figure has all claims with a number", {
  expect_equal(distance_columns(factor(c("a", "a", "b"), c("a", "b"))), c(a = 1, b = 2))
  judged_claims$measured[1] <- NA
  path <- tempfile(fileext = ".svg")
  on.exit(unlink(path))
  save_figure(
    draw_distances(claim_distances(judged_claims)), path, 4, tibble::tibble(cell = character())
  )
  drawn <- paste(readLines(path), collapse = "")
  expect_equal(
    vapply(judged_claims$claim, \(name) grepl(paste0(">", name, "<"), drawn), TRUE),
    c(one = FALSE, two = TRUE, three = TRUE, four = TRUE)
  )
})

test_that("claim numbers show three digits and the side of the limit", {
  shown <- tibble::tibble(
    published = c(7.3, NA, NA, NA, 3), measured = c(0.0001872, 100.0002, 0, 956.4, NA),
    low = c(-0.00024, NA, NA, 950, NA), high = c(0.0006, NA, NA, 960, NA),
    tolerance = c("within 2", "at most 100.1", "at most 0", "at least 5", "within 1"),
    unit = c("%", "%", "", "s", "s")
  )
  expect_equal(
    number_of_claim(shown), c("0.00 [0.00, 0.00] %", "100.000 %", "0", "956 [950, 960] s", "")
  )
})
