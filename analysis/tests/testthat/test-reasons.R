# Reasons of verdicts: every sentence with evidence on cells holds on some data and falls on others.

studies_folder <- normalizePath(file.path("..", "..", "..", "studies"))

# Make the cells of one selector: all combinations of its values.
cells_like <- function(selector) {
  do.call(conditions, as.list(expand.grid(selector, stringsAsFactors = FALSE)))
}

# Make the data of a claim: its own cells have the value `own`, the cells that they are compared
# with have 1. The runs scatter by 0.1 %.
data_for <- function(claim, own) {
  where <- as.list(claim$where)
  if (claim$kind == "gain_factor") {
    where$algorithm <- c("bbr", "cubic")
  }
  rivals <- c(
    if (!is.null(claim$against)) list(utils::modifyList(where, as.list(claim$against))),
    if (!is.null(claim$others)) list(utils::modifyList(list(scheme = "other"), claim$others))
  )
  mine <- cells_like(where)
  mine$mean <- ifelse(claim$kind == "gain_factor" & mine$algorithm == "cubic", 1, own)
  theirs <- lapply(rivals, \(selector) dplyr::mutate(cells_like(selector), mean = 1))
  cells <- dplyr::bind_rows(mine, theirs)
  cells$cell <- paste0("cell", seq_len(nrow(cells)))
  cells$n_replicates <- cells$n_valid <- 6
  runs <- cells[rep(seq_len(nrow(cells)), each = 6), ]
  runs$replicate <- runs$seed <- rep(0:5, nrow(cells))
  runs$valid <- TRUE
  scatter <- 0.001 * seq(-1, 1, length.out = 6)
  runs[[metric_of(claim)]] <- if (claim$kind == "scatter_ratio") {
    1 + runs$mean * scatter
  } else {
    runs$mean * (1 + scatter)
  }
  list(cells = cells[c("block", "cell", "n_replicates", "n_valid", condition_columns)],
    replicates = runs)
}

sentences <- list()
for (path in Sys.glob(file.path(studies_folder, "*", "claims.yaml"))) {
  for (claim in yaml::read_yaml(path)$claims) {
    for (sentence in claim$reason) {
      if (!is.null(sentence$shown_by)) {
        name <- paste(basename(dirname(path)), claim$id)
        sentences <- c(sentences, list(list(name = name, claim = claim, sentence = sentence)))
      }
    }
  }
}

test_that("the claims have reasons with evidence on cells", {
  expect_gt(length(sentences), 30)
})

for (found in sentences) {
  test_that(paste("the reason of", found$name, "holds on some data and falls on others"), {
    support <- found$sentence$shown_by
    limit <- range(Filter(is.finite, allowed_range(support)))
    values <- c(mean(limit), limit * 1.5, limit / 1.5, limit + 2, limit - 2, 1e-6, 1e6)
    # A gain has a logarithm.
    if (support$kind == "gain_factor") values <- values[values > 0]
    fails <- vapply(values, function(own) {
      judge_sentence(found$sentence, data_for(support, own), found$claim)$unsupported
    }, "")
    expect_true(any(fails == ""))
    expect_true(any(grepl("its reason is not reproduced", fails)))
  })
}

# A claim that is not reproduced, with data on which the evidence holds.
broken <- list(
  id = "c", sentence = "s", source = "a test", kind = "value", where = list(block = "main"),
  at_least = 10
)
broken$reason <- list(
  list(text = "It has {value} left.", shown_by = list(
    kind = "value", where = list(block = "main"), at_most = 3
  )),
  list(text = "As printed.", published = list(where = list(a = 1), column = "b", at_least = 1))
)

test_that("a reason has the numbers of its evidence, and falls with one of its sentences", {
  judged <- evaluate_claim(broken, data_for(broken, 2), "loss")
  expect_equal(judged$verdict, "not reproduced")
  expect_equal(judged$reason, "It has 2 left. As printed.")
  expect_equal(judged$unsupported, "")
  judged <- evaluate_claim(broken, data_for(broken, 5), "loss")
  expect_match(judged$unsupported, "its reason is not reproduced: 5 .*, at most 3")
})

test_that("a cause counts only with a verdict that it explains, and while its evidence holds", {
  cause <- broken
  cause$reason[[1]]$cause <- TRUE
  expect_equal(evaluate_claim(cause, data_for(cause, 2), "loss")$cause, "difference")
  expect_equal(evaluate_claim(cause, data_for(cause, 5), "loss")$cause, "")
  expect_equal(evaluate_claim(cause, data_for(cause, 20), "loss")$cause, "")
  expect_equal(evaluate_claim(broken, data_for(broken, 2), "loss")$cause, "")
  # A campaign without the cells of the cause has the other sentences.
  cause$reason[[1]]$shown_by$where$block <- "elsewhere"
  without <- tibble::tibble(reason = "As printed.", unsupported = "", cause = "")
  judged <- evaluate_claim(cause, data_for(cause, 2), "loss")
  expect_equal(judged[c("reason", "unsupported", "cause")], without)
  # So has one without the cells that lead to the cause.
  step <- cause$reason[[1]]
  step$cause <- NULL
  cause$reason <- c(list(step), cause$reason)
  judged <- evaluate_claim(cause, data_for(cause, 2), "loss")
  expect_equal(judged[c("reason", "unsupported", "cause")], without)
})

test_that("less scatter without the cause explains an unresolved verdict only", {
  near <- list(
    id = "c", sentence = "s", source = "a test", kind = "value", at_least = 1,
    where = list(block = "main")
  )
  near$reason <- list(list(text = "It is the loss.", cause = TRUE, shown_by = list(
    kind = "scatter_ratio", where = list(block = "main", loss_percent = 0),
    against = list(loss_percent = 1), at_most = 0.5
  )))
  judge_with <- function(scatter, mean = 1) {
    data <- data_for(near$reason[[1]]$shown_by, scatter)
    data$replicates$goodput_mbit <- mean * data$replicates$goodput_mbit
    near$where$loss_percent <- 1
    evaluate_claim(near, data, "loss")
  }
  judged <- judge_with(0.01)
  expect_equal(c(judged$verdict, judged$cause), c("inconclusive", "scatter"))
  expect_match(judged$reason, "It is the loss.$")
  expect_equal(judge_with(0.9)$cause, "")
  judged <- judge_with(0.01, mean = 0.5)
  expect_equal(c(judged$verdict, judged$cause), c("not reproduced", ""))
})

test_that("an inconclusive claim has a cause made of its numbers, and a reason that holds", {
  scattered <- data_for(broken, 9.9)
  scattered$replicates$goodput_mbit <- c(9, 9.4, 9.8, 10, 10.4, 10.8)
  near <- broken
  near$reason <- broken$reason[2]
  judged <- evaluate_claim(near, scattered, "loss")
  expect_equal(judged$verdict, "inconclusive")
  reach <- judged$high - judged$measured
  runs <- ceiling(6 * (reach / (10 - judged$measured))^2)
  expect_match(judged$reason, "beyond the limit, and the 6 runs scatter so much")
  expect_match(judged$reason, paste("about", runs, "runs would decide. As printed.$"))
  # A reason that does not hold is not printed.
  judged <- evaluate_claim(broken, scattered, "loss")
  expect_false(grepl("left", judged$reason))
  expect_equal(judged$unsupported, "")
  # Few runs have no interval.
  few <- scattered
  few$replicates <- few$replicates[1:4, ]
  judged <- evaluate_claim(near, few, "loss")
  expect_match(judged$reason, "N = 4, but a confidence interval needs 5.")
})

test_that("the limit that the interval crosses decides how many runs are needed", {
  needed <- function(value, low, high, n, range) {
    claim <- list(published = mean(range), within = diff(range) / 2)
    runs_needed(list(value = value, low = low, high = high, n = n, verdict = "inconclusive"), claim)
  }
  # Twice as far from the crossed limit as the interval reaches needs four times the runs.
  expect_equal(needed(8, 7.5, 12, 5, c(5, 10)), 20)
  expect_equal(needed(4, 3, 6, 5, c(5, 10)), 20)
  # More runs do not decide at the edge of the limit.
  expect_equal(needed(9.999, 9, 11, 6, c(5, 10)), Inf)
})

test_that("a share of the scatter is a whole percentage", {
  expect_equal(as_share(0.119), "12 %")
  expect_equal(as_share(0.0001), "less than 1 %")
})

test_that("a verdict without a reason says that none is known", {
  claims <- tibble::tibble(
    study = "loss", claim = c("a", "b"), sentence = c("First.", "Second."), tolerance = "at most 1",
    verdict = "not reproduced", reason = c("", "The link is full."), unsupported = "", absent = ""
  )
  expect_match(
    explain_verdicts(claims),
    "First[.] We do not know why[.]\n.*Second[.] The link is full[.]"
  )
})
