# Agreement factors of published numbers, and margins from a source's own repeats.

# Cells of the loss study with made-up runs around `goodput`.
loss_data <- function(loss, goodput, spread = 0.02) {
  cells <- conditions(
    loss_percent = loss, cell = paste0("cubic", loss), path = "symmetric", goodput = goodput
  )
  cells$n_replicates <- cells$n_valid <- 6
  runs <- cells[rep(seq_along(loss), each = 6), ]
  runs$replicate <- rep(0:5, length(loss))
  runs$seed <- seq_len(nrow(runs))
  runs$goodput_mbit <- runs$goodput * (1 + spread * rep(c(-1, 1), length.out = 6))
  runs$valid <- TRUE
  list(cells = cells, replicates = runs)
}
published <- tibble::tibble(
  algorithm = "cubic", path = rep(c("symmetric", "asymmetric"), each = 3),
  loss_percent = rep(0:2, 2), mean = c(800, 220, 100, 860, 200, 110), slide = 8
)

test_that("margins come from the source's repeats only", {
  numbers <- published_numbers("loss", published)
  # Two pairs, of which each has a variance of half its squared difference; not the loss-free one.
  variance <- mean(c(log(220 / 200), log(110 / 100))^2 / 2)
  expect_equal(unique(numbers$margin), exp(1.959964 * sqrt(2 * variance)), tolerance = 1e-6)
  expect_equal(nrow(numbers), 6)
  expect_equal(nrow(published_numbers("calibration", published)), 0)
})

test_that("every measured number has a factor, and others are omitted", {
  numbers <- published_numbers("loss", published)
  found <- agreement_factors(numbers, loss_data(0:1, c(1000, 211)))
  expect_equal(found$published, c(800, 220))
  expect_equal(found$factor, c(1.25, 211 / 220))
  expect_true(all(found$low < found$factor & found$factor < found$high))
  expect_equal(found$within, c(0, 1))
  expect_equal(found$interval, rep("confidence, 95 %", 2))
  found <- summarise_factors(numbers, found)
  expect_equal(found$published, 6)
  expect_equal(found$measured, 2)
  expect_equal(c(found$within, found$with_margin), c(1, 2))
  expect_equal(nrow(agreement_factors(numbers, loss_data(7, 50))), 0)
  expect_equal(names(no_factors), names(agreement_factors(numbers, loss_data(0, 800))))
  expect_equal(names(no_sources), names(found))
  expect_equal(nrow(summarise_factors(tibble::tibble(), no_factors)), 0)
})

test_that("deterministic cells have a factor without an interval", {
  found <- agreement_factors(published_numbers("loss", published), loss_data(0, 800, 0))
  expect_equal(found$factor, 1)
  expect_equal(found$interval, "deterministic")
  expect_true(is.na(found$low))
})

test_that("single runs have prediction intervals, and repeated runs are averaged", {
  runs <- tibble::tibble(
    exercise = "A", part = "runs", index = NA, run = 1:2, scheme = "fixed,window=10",
    throughput_mbit = c(1.8, 2.2), queue_delay_p95_ms = 55, signal_delay_p95_ms = c(100, 200),
    power = NA_real_, from = "repository"
  )
  numbers <- published_numbers("cellular", runs)
  expect_equal(numbers$published[numbers$metric == "link_throughput_mbit"], 2)
  expect_equal(numbers$published[numbers$metric == "power"], mean(c(18, 11)))
  expect_equal(numbers$published_runs[numbers$metric == "power"], 2)
  # A copy of a run counts once.
  copies <- published_numbers("cellular", runs[c(1, 2, 2), ])
  expect_equal(copies, numbers)
})

test_that("every study's published numbers name cells and metrics of the study", {
  for (study in c("loss", "bufferbloat", "cloud", "map", "cellular")) {
    numbers <- published_numbers(
      study, read_published(file.path("../../..", "config/published", paste0(study, ".csv")))
    )
    expect_true(all(numbers$metric %in% names(metric_units)), info = study)
    expect_true(all(numbers$margin > 1, na.rm = TRUE), info = study)
    blocks <- names(yaml::read_yaml(
      file.path("../../..", "config/studies", paste0(study, ".yaml"))
    )$blocks)
    expect_true(all(unlist(strsplit(numbers$blocks, " ")) %in% blocks), info = study)
  }
})

test_that("margins of claims are the repeatability limits that they name", {
  checked <- 0
  for (study in c("loss", "cellular")) {
    folder <- "../../.."
    published <- read_published(file.path(folder, "config/published", paste0(study, ".csv")))
    numbers <- published_numbers(study, published)
    path <- file.path(folder, "report/claims", paste0(study, ".yaml"))
    for (claim in yaml::read_yaml(path)$claims) {
      if (!grepl("repeatability", claim$limit_because)) next
      margin <- unique(numbers$margin[numbers$metric == metric_of(claim)])
      expect_lt(abs(claim$within / claim$published - (margin - 1)), 0.004)
      checked <- checked + 1
    }
  }
  expect_equal(checked, 19)
})
