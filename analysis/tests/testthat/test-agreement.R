# Make runs of cells of study x.
runs_of_cells <- function(values, path = "symmetric", loss_percent = 1) {
  n <- ncol(values)
  rows <- conditions(
    cell = rep(paste0(path, seq_len(nrow(values))), each = n), path = path, block = "main",
    loss_percent = loss_percent, replicate = rep(seq_len(n) - 1, nrow(values))
  )
  rows |>
    dplyr::mutate(study = "x", valid = TRUE, goodput_mbit = as.vector(t(values))) |>
    with_columns(agreement_metrics)
}

noise <- function(cells, n = 10) {
  set.seed(5, kind = "Mersenne-Twister", sample.kind = "Rejection")
  matrix(exp(stats::rnorm(cells * n, 3, 0.2)), nrow = cells)
}

test_that("halves of the same runs give about as many false alarms as their intervals allow", {
  found <- summarise_disagreements(seed_disagreements(runs_of_cells(noise(40))))
  expect_equal(found$study, c("x", "all"))
  expect_equal(found$cells, c(40, 40))
  expect_true(found$percent[2] > 1 && found$percent[2] < 8)
  again <- summarise_disagreements(seed_disagreements(runs_of_cells(noise(40))))
  expect_identical(again, found)
})

test_that("cells with too few or equal runs are not compared", {
  expect_equal(nrow(seed_disagreements(runs_of_cells(noise(3, n = 9)))), 0)
  expect_equal(nrow(seed_disagreements(runs_of_cells(matrix(7, 2, 10)))), 0)
  expect_equal(nrow(summarise_disagreements(seed_disagreements(runs_of_cells(noise(1, 4))))), 0)
})

test_that("paths differ if the interval of their ratio excludes one", {
  values <- noise(2)
  both <- dplyr::bind_rows(
    runs_of_cells(values[1, , drop = FALSE], "symmetric", 1),
    runs_of_cells(2 * values[2, , drop = FALSE], "asymmetric", 1),
    runs_of_cells(values[2, , drop = FALSE], "symmetric", 2),
    runs_of_cells(values[2, , drop = FALSE], "asymmetric", 2),
    runs_of_cells(values[1, , drop = FALSE], "symmetric", 3)
  )
  found <- path_agreement(both)
  expect_equal(found$loss_percent, c(1, 2))
  expect_equal(found$apart, c(1, 0))
  expect_equal(found$ratio[2], 1)
  expect_equal(nrow(path_agreement(both[0, ])), 0)
  expect_equal(names(path_agreement(tibble::tibble())), names(found))
})

test_that("claims on goodput are judged again over other windows", {
  rows <- runs_of_cells(noise(1)) |>
    dplyr::mutate(
      seed = replicate, early_goodput_mbit = goodput_mbit / 4, late_goodput_mbit = goodput_mbit,
      whole_goodput_mbit = goodput_mbit
    )
  cells <- rows[1, c("block", "cell", condition_columns)] |>
    dplyr::mutate(n_replicates = 10, n_valid = 10)
  of_one <- list(loss_percent = 1)
  claims <- list(
    list(id = "a", sentence = "s", source = "t", kind = "value", where = of_one, at_least = 10),
    list(id = "b", sentence = "s", source = "t", kind = "value", metric = "power", at_least = 1)
  )
  found <- window_sensitivity(claims, list(cells = cells, replicates = rows), "x")
  expect_equal(found$claim, "a")
  expect_equal(found$early, found$measured / 4)
  expect_equal(c(found$verdict, found$early_verdict), c("reproduced", "not reproduced"))
  expect_equal(count_reversed(found$verdict, found$early_verdict), 1)
  expect_equal(count_reversed(found$verdict, found$late_verdict), 0)
})

test_that("cells whose halves differ are named, unless their path or flows change", {
  halves <- function(ratio, ...) {
    rows <- runs_of_cells(noise(1)) |>
      dplyr::mutate(
        cell = paste(ratio, ...), early_goodput_mbit = goodput_mbit,
        late_goodput_mbit = goodput_mbit * ratio * rep(c(0.99, 1.01), 5), app = "iperf3",
        trace = "none", changes = "none", flows = "none", rtt_ms = 20
      )
    more <- list(...)
    rows[names(more)] <- more
    rows
  }
  found <- halves_of_cells(dplyr::bind_rows(
    halves(0.4), halves(1), halves(1.03), halves(2), halves(0.5, changes = "at_s=3,rate_mbit=5"),
    halves(0.5, flows = "bbr,start_s=3"), halves(0.6, flows = "bbr,count=2"),
    halves(0.5, app = "web"), halves(0.5, trace = "cellular"), halves(0.5, valid = FALSE)
  ))
  expect_equal(round(found$ratio, 2), c(0.4, 0.6, 1, 1.03, 2))
  # 3 % is significant here, and does not matter.
  expect_equal(found$apart, c(1, 1, 0, 0, 1))
  expect_true(found$high[4] > 1 && found$low[4] > 1)
  expect_match(halves_text(found), "In 3 of 5 cells .*depend on the length")
  expect_match(halves_text(found[3, ]), "In none of 1 cells")
  expect_equal(halves_text(found[0, ]), "")
  expect_equal(nrow(halves_of_cells(halves(2)[1:4, ])), 0)
})

test_that("the first page states the campaign, the number of runs and their length", {
  cells <- dplyr::mutate(
    conditions(cell = c("a", "b", NA), block = c("main", "main", "rest"), study = "x"),
    n_replicates = c(5, 10, NA), n_valid = c(4, 10, NA)
  )
  overview <- campaign_overview(cells)
  expect_equal(overview$cells, 2)
  expect_match(
    campaign_text("quick", overview),
    "the \\*quick\\* campaign.*15 runs of 2 cells in 1 study, of 5 s"
  )
  absent <- campaign_overview(dplyr::mutate(
    cells, n_replicates = c(5, 0, NA), n_valid = c(5, 0, NA), duration_s = c(5, 99, NA)
  ))
  expect_match(campaign_text("", absent), "5 runs of 1 of its 2 cells in 1 study, of 5 s each")
  expect_match(
    campaign_limitations(absent),
    "^1 of 2 cells are not measured. .* has 5 runs of 5 s each.*missing[.]$"
  )
  expect_match(campaign_text("", overview), "a custom campaign")
  expect_match(campaign_limitations(overview), "fewer than 5 valid runs, .*: x/main")
  expect_equal(from_to(3, 3), "3")
  expect_equal(from_to(3, 5.5), "3 to 5.5")
})

test_that("verdicts are counted in text and tables", {
  claims <- tibble::tibble(
    study = c("x", "x", "y", "y", "z"),
    verdict = c("reproduced", "not reproduced", "reproduced", "reproduced", "inconclusive"),
    evidence = c("not fitted", "not fitted", "order", "fitted", "own"),
    cause = c("", "scatter", "", "", "")
  )
  expect_equal(
    count_verdicts_text(claims),
    paste0(
      "of 2 numbers to which nothing was fitted, 1 is reproduced and 1 is not reproduced (our ",
      "runs show the cause of 1 verdict); of 1 order or sign, 1 is reproduced"
    )
  )
  found <- count_verdicts(claims)
  expect_equal(as.character(found$Evidence), c("not fitted", "order", "fitted", "own"))
  expect_equal(found$reproduced, c(1, 1, 1, NA))
  expect_equal(found$`not reproduced`, c(1, NA, NA, NA))
  expect_equal(
    count_verdicts_text(claims[5, ]), "of 1 expectation of our own, 1 is inconclusive"
  )
  expect_equal(windows_text(tibble::tibble()), "")
})
