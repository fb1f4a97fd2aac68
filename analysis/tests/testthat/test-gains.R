test_that("the ratio of means has Welch's interval on logarithms", {
  over <- c(20, 22, 19, 21, 20.5, 23)
  under <- c(10, 11, 9, 10.2, 9.4)
  reference <- stats::t.test(log(over), log(under))
  found <- ratio_of_means(over, under)
  expect_equal(c(found$low, found$high), exp(as.numeric(reference$conf.int)), tolerance = 1e-9)
  expect_equal(found$ratio, exp(mean(log(over)) - mean(log(under))))
  expect_equal(c(found$error, found$df), c(reference$stderr, reference$parameter[["df"]]))
})

test_that("few runs have no interval, runs without variance one without width", {
  expect_true(is.na(ratio_of_means(20, 10)$low))
  expect_true(is.na(ratio_of_means(c(20, 21, 22, 23), c(10, 11, 9, 12))$error))
  calm <- ratio_of_means(rep(20, 5), rep(10, 5))
  expect_equal(c(calm$low, calm$high, calm$error, calm$df), c(2, 2, 0, Inf))
})

test_that("only an important gain whose interval excludes 1 has a winner", {
  found <- winner(c(1.2, 0.7, 1, 2, 1.04), c(1.1, 0.5, 0.9, NA, 1.03), c(1.3, 0.8, 1.2, NA, 1.05))
  expect_equal(as.character(found), c("BBR", "CUBIC", rep("either", 3)))
})

# A full factorial in which the gain is 4 with high loss, and 9 times that with high loss and RTT.
made_up_factorial <- function() {
  conditions <- expand.grid(
    rtt_ms = c(15, 250), rate_mbit = c(30, 1000), buffer_packets = c(66, 6605),
    loss_percent = c(0.1, 7)
  )
  conditions$ratio <- ifelse(
    conditions$loss_percent == 7, ifelse(conditions$rtt_ms == 250, 36, 4), 1
  )
  conditions$low <- conditions$ratio * 0.9
  conditions$high <- conditions$ratio * 1.1
  conditions$error <- 0.05
  conditions$df <- 8
  conditions$winner <- winner(conditions$ratio, conditions$low, conditions$high)
  conditions
}

test_that("effects and interactions recover the simulated ones", {
  effects <- factorial_effects(made_up_factorial())
  of <- function(name) effects$factor[effects$effect == name]
  # Averaged over RTT, loss multiplies by sqrt(4 * 36); RTT by sqrt(1 * 9); their product by 3.
  expect_equal(of("loss"), 12)
  expect_equal(of("RTT"), 3)
  expect_equal(of("RTT \u00d7 loss"), 3)
  expect_equal(of("rate"), 1)
  expect_equal(nrow(effects), 10)
  # Sixteen errors of 0.05 with 8 degrees of freedom each: 4 * 0.05 / 8 with 16 * 8.
  expect_equal(effects$error, rep(0.025, 10))
  expect_equal(log(effects$high / effects$factor), rep(stats::qt(0.975, 128) * 0.025, 10))
})

test_that("with missing conditions, effects use the complete pairs", {
  conditions <- made_up_factorial()
  # Without the high rate at low loss: loss has its four pairs at the low rate, rate those at high
  # loss.
  some <- conditions[conditions$loss_percent == 7 | conditions$rate_mbit == 30, ]
  effects <- factorial_effects(some)
  of <- function(name, column) effects[[column]][effects$effect == name]
  expect_equal(of("loss", "factor"), 12)
  expect_equal(of("rate", "factor"), 1)
  expect_equal(c(of("loss", "pairs"), of("RTT", "pairs")), c(4, 6))
  expect_setequal(effects$kind, "main")
  expect_equal(nrow(factorial_effects(conditions[0, ])), 0)
})

test_that("the tree recovers the rule of the data and is drawn completely", {
  conditions <- made_up_factorial()
  conditions <- conditions[rep(seq_len(nrow(conditions)), 2), ]
  tree <- grow_tree(features(conditions))
  rules <- tree_rules(tree)
  expect_setequal(as.character(rules$choose), c("BBR", "either"))
  expect_match(rules$rule[rules$choose == "BBR"], "loss % \u2265 3.55")
  expect_equal(sum(rules$right), nrow(conditions))
  nodes <- tree_layout(tree)
  expect_false(anyNA(nodes$x))
  expect_true(all(left_out(features(conditions)) == as.character(conditions$winner)))
})

test_that("of a condition in two blocks, the longer runs come first", {
  runs <- tidyr::crossing(
    tibble::tibble(block = c("grid", "shallow"), duration_s = c(30, 60), gain = c(3, 2)),
    algorithm = c("bbr", "cubic"), replicate = 0:4
  ) |>
    dplyr::mutate(
      goodput_mbit = ifelse(algorithm == "bbr", gain, 1) * (10 + replicate), valid = TRUE,
      rtt_ms = 10, rate_mbit = 20, buffer_packets = 66, loss_percent = 0, error_share = 1
    )
  found <- gains(runs)
  expect_equal(found$block, c("shallow", "grid"))
  expect_equal(found$ratio, c(2, 3))
  expect_false("duration_s" %in% names(found))
})

test_that("testbeds are compared where both have a condition, by the sign of large gains only", {
  published <- tibble::tibble(
    source = rep(testbed_levels[1:2], each = 3), rtt_ms = rep(c(5, 10, 25), 2), rate_mbit = 10,
    buffer_packets = 66, ratio = c(1.2, 0.8, 1.05, 1.5, 1.6, 0.7)
  )
  # No 25 ms, and one condition that nobody else has.
  ours <- tibble::tibble(rtt_ms = c(5, 10, 500), rate_mbit = 10, buffer_packets = 66, ratio = 0.8)
  found <- testbed_pairs(published, ours)
  expect_equal(paste(found$source, found$against), c(
    "datta2023 (Linux 4.15) cao2019", "ours cao2019", "ours datta2023 (Linux 4.15)"
  ))
  expect_equal(found$conditions, c(3, 2, 2))
  # 1.05 is no gain of 10 %.
  expect_equal(found$decisive, c(2, 2, 2))
  expect_equal(found$same_sign, c(1, 1, 0))
  expect_equal(found$median_factor, c(1.5, 1.25, (1.5 / 0.8 + 2) / 2))
  expect_equal(found$largest_factor, c(2, 1.5, 2))
})

test_that("the paper's gains in percent and its replication's goodput become ratios", {
  published <- tibble::tibble(
    source = c("cao2019", "datta2023 (Linux 5.15)", "kim", "datta2023 (Linux 5.15)"),
    from_s = c(NA, NA, NA, 1), gain_percent = c(-20, NA, NA, NA), bbr_mbit = c(NA, 30, 9, 9),
    cubic_mbit = c(NA, 20, 9, 9)
  )
  expect_equal(of_testbeds(published)$ratio, c(0.8, 1.5))
})

test_that("a prediction of no gain has no skill, and a perfect one has all", {
  true <- c(1.2, 2, 0.8)
  expect_equal(skill_of(rep(1, 3), true), 0)
  expect_equal(skill_of(true, true), 1)
  expect_lt(skill_of(1 / true, true), 0)
})
