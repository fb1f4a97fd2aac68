# Criteria of a suite (config/suites), judged for each measured algorithm with the kinds and
# verdicts of claims.

# Verdicts of criteria, by the verdicts of claims.
score_verdicts <- c(
  reproduced = "meets", "not reproduced" = "misses", inconclusive = "inconclusive",
  "not measured" = "not measured"
)

criteria_words <- c("criterion", "title", "limit", "cells", "against", "limit_because", "scenario")

# List the measured algorithms, except those that a scenario names itself.
scored_algorithms <- function(suite, cells) {
  products <- unlist(lapply(suite$scenarios, \(s) as_products(s$points)), recursive = FALSE)
  named <- setdiff(unlist(lapply(products, \(p) p$algorithm)), suite$baselines)
  setdiff(unique(cells$algorithm[!is.na(cells$cell)]), named)
}

# Return a scenario's parameter grids as a list; it may have one grid or several.
as_products <- function(points) if (is.null(names(points))) points else list(points)

# Judge each criterion for each algorithm, in the suite's order.
judge_suite <- function(suite, cells, replicates, intervals) {
  data <- list(
    cells = cells, replicates = score_metrics(derive_metrics(replicates), intervals)
  )
  dplyr::bind_rows(lapply(scored_algorithms(suite, cells), function(algorithm) {
    rows <- lapply(
      suite$criteria, judge_criterion,
      algorithm = algorithm, data = data, scenarios = suite$scenarios
    )
    dplyr::bind_rows(rows)
  }))
}

# Turn a criterion into a claim about one algorithm.
claim_about <- function(criterion, algorithm) {
  criterion$where$algorithm <- algorithm
  if (!is.null(criterion$against)) {
    criterion$against <- list(algorithm = criterion$against)
  }
  criterion
}

judge_criterion <- function(criterion, algorithm, data, scenarios) {
  claim <- claim_about(criterion, algorithm)
  found <- zero_interval(measure_claim(claim, data), claim)
  if (found$verdict == "not measured") {
    found$absent <- why_not_scored(found$absent, claim, data, scenarios)
  }
  most <- !is.null(criterion$at_most)
  list(
    algorithm = algorithm,
    criterion = criterion$id,
    section = criterion$section,
    title = criterion$title,
    scenario = toString(criterion$where$block),
    metric = criterion$metric,
    value = found$value,
    low = found$low,
    high = found$high,
    n = found$n,
    unit = criterion$unit,
    limit = tolerance_text(claim),
    at_least = if (most) NA_real_ else criterion$at_least,
    at_most = if (most) criterion$at_most else NA_real_,
    limit_is = criterion$limit_is,
    limit_because = criterion$limit_because,
    against = or_empty(criterion$against),
    verdict = unname(score_verdicts[found$verdict]),
    absent = found$absent,
    cells = paste(select_cells(data, claim)$cell, collapse = " ")
  )
}

# Give a zero in all runs an interval without width: a ratio of zero has no confidence interval.
zero_interval <- function(found, claim) {
  if (isTRUE(found$value == 0) && is.na(found$low) && found$n >= min_runs) {
    found$low <- found$high <- 0
    found$verdict <- verdict_of_mean(found, allowed_range(claim))
    found$absent <- ""
  }
  found
}

# Explain why a criterion has no number: the reasons of its runs or of its scenarios in the suite,
# else `otherwise`.
why_not_scored <- function(otherwise, claim, data, scenarios) {
  own <- missing_cells(select_cells(data, claim))
  if (nrow(own) > 0) {
    return(enumerate(unique(own$why), 3))
  }
  blocks <- claim$where$block
  not_quick <- unlist(lapply(scenarios[blocks], `[[`, "not_quick"))
  if (length(not_quick) < length(blocks)) {
    return(otherwise)
  }
  if (any(data$cells$block %in% blocks & !is.na(data$cells$cell))) {
    return("the scenario and the algorithm need different kernels")
  }
  paste0("not in the quick form. ", paste(sub("[.]$", "", unname(not_quick)), collapse = ". "))
}

read_criteria <- function(path) read_measured(path, words = criteria_words)
