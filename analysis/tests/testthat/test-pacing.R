runs_of_sender <- function(block, queue, mbit, duration_s, warmup_s, ...) {
  conditions(
    study = "map", block = block, algorithm = "cubic", rtt_ms = 100, rate_mbit = 250,
    buffer_packets = 66, loss_percent = 0, sender_queue = queue, duration_s = duration_s,
    warmup_s = warmup_s, goodput_mbit = mbit
  ) |>
    dplyr::mutate(replicate = dplyr::row_number(), valid = TRUE, retransmits = 80)
}

published_start <- tibble::tibble(
  source = paste0("datta2023 (Linux ", c("4.15", "4.15; log", "5.15; log"), ")"),
  rtt_ms = 100, rate_mbit = 250, buffer_packets = 66, cubic_mbit = c(128, 31, 33),
  bbr_mbit = c(224, NA, NA), from_s = c(NA, 1, 1), to_s = c(NA, 10, 10),
  retransmits_first_second = c(NA, 82, 80)
)

test_that("the effect of fq is paired, and joined with the same seconds of the replication", {
  replicates <- dplyr::bind_rows(
    runs_of_sender("shallow-start", "fq", c(160, 162, 164, 166, 168), 10.5, 1.5),
    runs_of_sender("shallow-start", "fq_codel", c(32, 32.4, 32.8, 33.2, 33.6), 10.5, 1.5),
    runs_of_sender("shallow", "fq", rep(210, 5), 60, 0),
    runs_of_sender("shallow-unpaced", "fq_codel", rep(140, 5), 60, 0)
  )
  found <- pacing_rows(replicates, published_start)
  start <- found[found$to_s == 10, ]
  expect_equal(c(start$factor, start$factor_low, start$factor_high), rep(5, 3))
  expect_equal(c(start$replication_least_mbit, start$replication_most_mbit), c(31, 33))
  expect_equal(start$replication_again_first_s, 81)
  whole <- found[found$to_s == 60, ]
  expect_equal(c(whole$factor, whole$replication_most_mbit), c(1.5, 128))
})

test_that("without a counterpart, the table has columns but no row", {
  lonely <- runs_of_sender("shallow", "fq", rep(210, 5), 60, 0)
  found <- pacing_rows(lonely, published_start)
  expect_equal(nrow(found), 0)
  expect_true(all(c("factor", "paced_mbit", "replication_least_mbit") %in% names(found)))
})

test_that("runs of a flow's start are not conditions of the map", {
  pair <- dplyr::bind_rows(
    runs_of_sender("shallow-start", "fq", rep(160, 5), 10.5, 1.5),
    runs_of_sender("shallow-start", "fq", rep(200, 5), 10.5, 1.5) |>
      dplyr::mutate(algorithm = "bbr")
  )
  expect_equal(nrow(gains(pair)), 0)
})

test_that("pauses are summarised beside runs without them and the replication", {
  runs <- dplyr::bind_rows(
    runs_of_sender("shallow-link", "fq_codel", rep(140, 5), 60, 0),
    # A pair with another shaper is no counterpart.
    runs_of_sender("shallow-unpaced", "fq_codel", rep(150, 5), 60, 0),
    runs_of_sender("shallow-paused", "fq_codel", c(60, 62, 64, 66, 68), 60, 0),
    runs_of_sender("shallow", "fq", rep(210, 5), 60, 0),
    # Runs of other lengths are no counterpart.
    runs_of_sender("imc", "fq", rep(300, 5), 30, 0)
  )
  both_kernels <- dplyr::bind_rows(
    published_start[1, ], dplyr::mutate(published_start[1, ], cubic_mbit = 32)
  ) |>
    dplyr::mutate(cubic_retransmits = c(200, 220))
  found <- pause_rows(runs, both_kernels)
  expect_equal(nrow(found), 1)
  expect_equal(c(found$mbit, found$unpaused_mbit, found$paced_mbit), c(64, 140, 210))
  expect_true(found$low < 64 & found$high > 64)
  expect_equal(c(found$retransmits, found$replication_retransmits), c(80, 210))
  # Over the geometric mean of 128 and 32.
  expect_equal(found$factor, 1)
  expect_equal(nrow(pause_rows(runs[0, ], both_kernels)), 0)
  # A condition without a counterpart keeps its row.
  alone <- pause_rows(runs[11:15, ], published_start)
  expect_true(is.na(alone$unpaused_mbit) & is.na(alone$paced_mbit))
})

test_that("the map itself has each condition once, and none of other hosts", {
  one <- tibble::tibble(
    block = c(
      "shallow", "grid", "shallow-unpaced", "shallow-link", "lan", "shallow-paused", "published"
    ),
    rtt_ms = 100, rate_mbit = 250, buffer_packets = 66, loss_percent = c(rep(0, 6), 7)
  )
  expect_equal(of_map_itself(one)$block, c("shallow", "published"))
})
