test_that("the first page counts the campaign's sources", {
  claims <- tibble::tibble(
    study = c("a", "a", "b", "c"), evidence = c("not fitted", "order", "own", "not fitted"),
    verdict = "near"
  )
  expect_match(purpose_text(claims), "numbers that two sources published")
  expect_match(purpose_text(claims[1:3, ]), "numbers that one source published")
  expect_equal(purpose_text(claims[3, ]), "")
  expect_equal(purpose_text(dplyr::mutate(claims, verdict = "not measured")), "")
  own <- dplyr::mutate(claims[3, ], verdict = "reproduced")
  expect_equal(published_conclusion(own, no_sources), "")
})

test_that("the chapters with a token bucket are named, and whether all of their cells have one", {
  cells <- tibble::tibble(
    study = c("a", "a", "a", "b", "c", "calibration"), cell = c("1", "2", NA, "1", "1", "1"),
    shaper = c("tbf", "link", NA, "htb-netem", "link", "link")
  )
  expect_equal(
    bucket_text(cells),
    paste(
      "All cells of @sec-b and some of @sec-a have a token bucket instead (@tbl-cells;",
      "@sec-calibration-bucket)."
    )
  )
  expect_equal(
    bucket_text(cells[4, ]), "All cells of @sec-b have a token bucket instead (@tbl-cells)."
  )
  expect_equal(bucket_text(cells[5, ]), "")
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

test_that("the box says how many cells have recorded numbers, if any have", {
  origin <- tibble::tibble(
    part = c("losslab", "not measured here"),
    what = c("1.0", "numbers recorded in recorded/full"), cells = c("9", "7")
  )
  box <- function(rows) campaign_facts("full", overview_of(9), rows, "make", "Quarto")
  overview_of <- function(n) {
    tibble::tibble(
      runs = 10 * n, cells = n, measured = n, min_runs = 10, max_runs = 10,
      shortest_s = 30, longest_s = 30
    )
  }
  text <- "7 of 9 cells were not measured here: numbers recorded in recorded/full"
  expect_identical(box(origin)[["Recorded"]], text)
  expect_false("Recorded" %in% names(box(origin[1, ])))
})

test_that("the first page's downloads have one row each when a campaign has several algorithms", {
  figure <- list2env(list(filter = dplyr::filter))
  source("../../../studies/bufferbloat/figures/finding.R", local = figure)
  pages <- tidyr::expand_grid(
    block = "web", algorithm = c("cubic", "reno"), competitor = c("none", "cubic"), queue = "fifo"
  )
  disciplines <- tidyr::expand_grid(
    block = "aqm", algorithm = c("bbr", "cubic", "reno"), competitor = "cubic",
    queue = c("red", "pie", "fq_codel")
  )
  rows <- figure$shown(dplyr::bind_rows(pages, disciplines) |> dplyr::mutate(buffer_packets = 100))
  expect_equal(paste(rows$algorithm, rows$competitor, rows$queue), c(
    "cubic cubic fifo", "reno none fifo", "cubic cubic pie", "cubic cubic fq_codel"
  ))
})
