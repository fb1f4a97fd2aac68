# The scoreboard of published numbers, and margins from a source's own repeats.

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
  # Without cells of the block `long`.
  list(
    cells = dplyr::bind_rows(cells, tibble::tibble(block = c("main", "long"))), replicates = runs
  )
}
# The means of the loss study, without the statistics of seconds.
means_of <- function(published) {
  dplyr::filter(published_numbers("loss", published), is.na(statistic))
}
published <- tibble::tibble(
  algorithm = "cubic", path = rep(c("symmetric", "asymmetric"), each = 3),
  loss_percent = rep(0:2, 2), mean = c(800, 220, 100, 860, 200, 110), std = 10, slide = 8
)

test_that("margins come from the source's repeats only", {
  numbers <- listed_numbers("loss", published)
  # Two pairs, of which each has a variance of half its squared difference; not the loss-free one.
  variance <- mean(c(log(220 / 200), log(110 / 100))^2 / 2)
  expect_equal(unname(repeatability(numbers)), exp(1.959964 * sqrt(2 * variance)), tolerance = 1e-6)
  expect_equal(nrow(means_of(published)), 6)
  expect_equal(nrow(published_numbers("calibration", published)), 0)
})

test_that("every measured number has a ratio and a grade, and others are omitted", {
  numbers <- means_of(published)
  found <- scoreboard(numbers, loss_data(1:2, c(220, 112)))
  expect_equal(found$published, c(220, 100))
  expect_equal(found$ratio, c(1, 1.12))
  expect_true(all(found$low < found$ratio & found$ratio < found$high))
  expect_equal(as.character(found$grade), c("within 5 %", "within 25 %"))
  # The RTT was fitted to the number at 1 %.
  expect_equal(found$apart, c("fitted", NA))
  sources <- summarise_scoreboard(numbers, found)
  expect_equal(
    unlist(sources[-(1:2)]),
    c(published = 6, measured = 2, counted = 1, within_5 = 0, within_25 = 1, within_2 = 1,
      median = 1.12)
  )
  expect_equal(
    scoreboard_text(sources),
    paste(
      "Of 1 published number of one source to which nothing was fitted, 0 % come out within 5 %,",
      "100 % within 25 %, and 100 % within a factor of two."
    )
  )
  two <- rbind(sources, transform(sources, study = "other", source = "other", counted = 3))
  expect_match(
    scoreboard_text(two), "^Of 4 published numbers of two sources [(]3 of [*]other[*][)] to"
  )
  expect_match(scoreboard_text(two), "Without [*]other[*], it is 0, 100 and 100 % of 1[.]$")
  expect_equal(nrow(scoreboard(numbers, loss_data(7, 50))), 0)
  numbers$blocks <- "elsewhere"
  expect_error(scoreboard(numbers, loss_data(7, 50)), "loss_numbers must name blocks .* elsewhere")
  expect_equal(names(join_facts(no_scores)), names(found))
  expect_equal(names(no_sources), names(sources))
  expect_equal(nrow(summarise_scoreboard(tibble::tibble(), join_facts(no_scores))), 0)
  expect_equal(scoreboard_text(no_sources), "")
})

test_that("a list of published numbers with a mistake is refused", {
  for (wrong in list(
    list(blocks = NULL, "have the column blocks"), list(metric = "godput", "found godput"),
    list(apart = "guessed", "found guessed")
  )) {
    row <- list(place = "a", blocks = "main", metric = "goodput_mbit", published = 1)
    row[names(wrong)[1]] <- wrong[1]
    listed <- tibble::as_tibble(Filter(Negate(is.null), row))
    assign("wrong_numbers", \(published) listed, globalenv())
    expect_error(published_numbers("wrong", NULL), paste0("wrong_numbers must .*", wrong[[2]]))
  }
})

test_that("a number that does not count names the axis or the reason", {
  refused <- function(apart, because) {
    listed <- tibble::tibble(
      place = "a", blocks = "main", metric = "goodput_mbit", published = 1, apart, because
    )
    assign("wrong_numbers", \(published) listed, globalenv())
    expect_error(published_numbers("wrong", NULL), "wrong_numbers must (have both|name axes)")
  }
  refused("derived", NA)
  refused(NA, "rtt_ms")
  refused("fitted", "the buffer")
  refused("configured", "rtt_ms bufer_packets")
})

test_that("only what was fitted or configured does not count in the cloud and loss studies", {
  labels <- function(study, ...) {
    folder <- "../../../studies"
    numbers <- listed_numbers(study, read_published(file.path(folder, study, "published.csv")))
    dplyr::filter(numbers, ...)
  }
  of_cloud <- labels("cloud")
  # No axis has a window, a deviation of the RTT, or retransmissions.
  free <- c(
    "cwnd_median_packets", "srtt_std_ms", "retransmits", "retransmits_first_second",
    "competitor_retransmits"
  )
  expect_true(all(is.na(of_cloud$apart[of_cloud$metric %in% free])))
  goodput <- dplyr::filter(
    of_cloud, app == "iperf3", competitor == "none", metric == "goodput_mbit", place != "log"
  )
  expect_equal(
    is.na(goodput$apart), goodput$algorithm == "cubic" & goodput$loss_percent == 0.1
  )
  expect_setequal(
    goodput$because[!is.na(goodput$because)],
    c("buffer_packets", "receive_buffer rate_mbit buffer_packets")
  )
  # A fitted mean is in the middle of its seconds, and says nothing about their scatter.
  seconds <- labels("loss", !is.na(apart), !is.na(statistic))
  expect_setequal(seconds$statistic, c("q25", "median", "q75"))
  fitted <- labels("loss", !is.na(apart), is.na(statistic))
  expect_equal(fitted$path, c("symmetric", "asymmetric"))
  expect_equal(fitted$because, c("rtt_ms", "rtt_ms"))
})

test_that("numbers that state the same fact are one row of geometric means", {
  of_bbr <- tibble::tibble(
    algorithm = "bbr", path = "symmetric", loss_percent = 0:1, mean = c(800, 900), std = 1,
    slide = 8
  )
  data <- loss_data(0:1, c(880, 900), 0)
  data$cells$algorithm <- data$replicates$algorithm <- "bbr"
  found <- scoreboard(means_of(of_bbr), data)
  expect_equal(nrow(found), 1)
  expect_equal(found$numbers, 2)
  expect_equal(found$ratio, sqrt(1.1))
  expect_equal(c(found$low, found$high), rep(sqrt(1.1), 2))
})

test_that("a ratio must be of one cell", {
  data <- loss_data(c(1, 1), c(220, 112))
  data$cells$cell[1:2] <- c("a", "b")
  data$replicates$cell <- rep(c("a", "b"), each = 6)
  numbers <- means_of(published[2, ])
  numbers$over <- "cubic"
  expect_error(scoreboard(numbers, data), "must select one cell, found 2")
})

test_that("grades are factors in both directions", {
  expect_equal(
    as.integer(grade_of(c(1, 1.05, 1 / 1.05, 1.06, 0.8, 1.9, 0.49, 0, NA))),
    c(1, 1, 1, 2, 2, 3, 4, 4, NA)
  )
})

test_that("deterministic cells have a ratio without an interval", {
  found <- scoreboard(means_of(published), loss_data(2, 100, 0))
  expect_equal(found$ratio, 1)
  expect_equal(found$interval, "deterministic")
  expect_true(is.na(found$low))
})

test_that("orders and signs are counted as right or wrong", {
  claims <- tibble::tibble(
    evidence = c("order", "order", "order", "own", "order"),
    verdict = c("reproduced", "not reproduced", "inconclusive", "reproduced", "not comparable")
  )
  expect_match(
    orders_text(claims[1:3, ]),
    "^Of 3 published .* signs, 1 is reproduced and 1 is not; 1 is inconclusive[.]$"
  )
  expect_match(orders_text(claims), "1 is inconclusive; 1 is not comparable[.]$")
  expect_equal(orders_text(claims[4, ]), "")
})

test_that("repeated runs are averaged, and the quotient of two numbers does not count", {
  runs <- tibble::tibble(
    exercise = "A", part = "runs", index = NA, run = 1:2, scheme = "fixed,window=10",
    throughput_mbit = c(1.8, 2.2), queue_delay_p95_ms = 55, signal_delay_p95_ms = c(100, 200),
    power = NA_real_, from = "repository"
  )
  numbers <- published_numbers("cellular", runs)
  throughput <- numbers[numbers$metric == "link_throughput_mbit", ]
  expect_equal(throughput$published, 2)
  expect_equal(throughput$published_sd, stats::sd(c(1.8, 2.2)))
  power <- numbers[numbers$metric == "power", ]
  expect_equal(power$published, mean(c(18, 11)))
  expect_equal(power$published_runs, 2)
  expect_equal(power$apart, "derived")
  # A copy of a run counts once.
  copies <- published_numbers("cellular", runs[c(1, 2, 2), ])
  expect_equal(copies, numbers)
})

test_that("margins of claims are the repeatability limits that they name", {
  checked <- 0
  for (study in c("loss", "cellular")) {
    folder <- "../../.."
    published <- read_published(file.path(folder, "studies", study, "published.csv"))
    margins <- repeatability(listed_numbers(study, published))
    path <- file.path(folder, "studies", study, "claims.yaml")
    for (claim in yaml::read_yaml(path)$claims) {
      if (!grepl("repeatability", claim$limit_because) || is.null(claim$within)) next
      margin <- margins[[paste(study, metric_of(claim))]]
      expect_lt(abs(claim$within / claim$published - (margin - 1)), 0.004)
      checked <- checked + 1
    }
  }
  expect_equal(checked, 13)
})

test_that("statistics of the seconds are rows of their own, with the cell's numbers", {
  data <- loss_data(2, 100)
  data$statistics <- tibble::tibble(
    cell = "cubic2", metric = "goodput_mbit", statistic_over = c("replicates", "seconds"),
    std = c(1, 12), n = c(6, 60)
  )
  numbers <- published_numbers("loss", dplyr::filter(published, loss_percent == 2))
  found <- scoreboard(dplyr::filter(numbers, statistic %in% "std"), data)
  expect_equal(found$source, "loss, seconds")
  expect_equal(c(found$ratio, found$n), c(1.2, 60))
  expect_true(is.na(found$low))
  # The study's own source has its means only.
  expect_equal(unique(numbers$source[is.na(numbers$statistic)]), "loss")
})

test_that("null models are counted beside ours, and only where there is one", {
  rows <- scoreboard(means_of(published), loss_data(0:2, c(900, 220, 112)))
  found <- summarise_metrics(rows)
  expect_equal(found$metric, "goodput_mbit")
  # 956 of 800 Mbit/s, and 166.5 of 100; the number at 1 % was fitted.
  expect_equal(
    unlist(found[-(1:3)]),
    c(
      counted = 2, within_5 = 0, within_25 = 2, within_2 = 2, null_counted = 2,
      null_within_5 = 0, null_within_25 = 1, null_within_2 = 2
    )
  )
  rows$null_ratio <- NA_real_
  expect_equal(summarise_metrics(rows)$null_counted, 0)
  expect_equal(names(summarise_metrics(rows[0, ])), names(found))
})
