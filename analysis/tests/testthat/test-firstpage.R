test_that("the first page counts the campaign's sources", {
  claims <- tibble::tibble(
    study = c("a", "a", "b", "c"), evidence = c("predicted", "order", "own", "predicted")
  )
  expect_match(purpose_text(claims), "numbers that two sources published")
  expect_match(purpose_text(claims[1:3, ]), "numbers that one source published")
  expect_equal(purpose_text(claims[3, ]), "")
  expect_equal(published_conclusion(claims[3, ]), "")
})

test_that("a campaign without findings says where they are", {
  before <- printed$findings
  on.exit(printed$findings <- before)
  printed$findings <- 0
  expect_equal(finding("x.svg", "", "all"), "")
  expect_match(without_finding(), "chapters")
  expect_match(finding("x.svg", "A sentence.", "all."), "A sentence. \\*Who should care:\\* all.")
  expect_equal(without_finding(), "")
})
