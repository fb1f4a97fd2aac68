test_that("defined names are locked", {
  place <- new.env()
  place$claims <- 1
  lock_names(place)
  expect_error(assign("claims", 2, place), "claims")
  assign("own", 2, place)
  expect_equal(place$own, 2)
})

test_that("pictures have the alternative text of the file beside them", {
  folder <- tempfile()
  dir.create(folder)
  old <- setwd(folder)
  on.exit({
    setwd(old)
    unlink(folder, recursive = TRUE)
  })
  writeLines(c("Goodput \"falls\",", "0 to 10."), "loss_goodput.txt")
  show <- "knitr::include_graphics(\"%s.svg\")"
  expect_equal(picture_words(sprintf(show, "loss_goodput")), "Goodput 'falls', 0 to 10.")
  expect_null(picture_words(sprintf(show, "loss_other")))
  expect_null(picture_words("show_table(rows)"))
})

test_that("a part is printed only under its condition", {
  document <- c(
    "before", part_if(TRUE), "kept", end_of_part(), "between", part_if(FALSE), "omitted",
    end_of_part(), "after"
  )
  expect_equal(without_omitted_parts(document), c("before", "kept", "between", "after"))
  expect_equal(without_omitted_parts("no parts"), "no parts")
})

test_that("an omitted part leaves no sentence to the list of what was not run", {
  before <- unmeasured$sentences
  number <- NA
  part_if(FALSE)
  expect_equal(say(number > 1, "It is {number}."), "")
  end_of_part()
  expect_equal(unmeasured$sentences, before)
})
