test_that("a name that has a meaning keeps it", {
  place <- new.env()
  place$claims <- 1
  lock_names(place)
  expect_error(assign("claims", 2, place), "claims")
  assign("own", 2, place)
  expect_equal(place$own, 2)
})
