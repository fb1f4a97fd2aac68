# Verdicts of claims: the number with its interval, its limit, the verdict, and the reason of a
# claim that does not agree, as long as its supporting statement is true.

# All verdicts, with their symbols. docs/reference/glossary.md defines each.
verdict_signs <- c(
  reproduced = "\u25cf", inside = "\u25cf", near = "\u25d0", "not reproduced" = "\u25a0",
  outside = "\u25a0", undecidable = "\u25cb", inconclusive = "\u25cb",
  "not comparable" = "\u25c7", "not measured" = "\u2013"
)
verdicts <- names(verdict_signs)
agreeing <- c("reproduced", "inside", "near")
differing <- c("not reproduced", "outside")
unresolved <- c("undecidable", "inconclusive")

# Get the range that a claim's only limit allows: at_most, at_least, or within (published value plus
# or minus).
allowed_range <- function(claim) {
  if (!is.null(claim$at_most)) {
    return(c(-Inf, claim$at_most))
  }
  if (!is.null(claim$at_least)) {
    return(c(claim$at_least, Inf))
  }
  claim$published + c(-1, 1) * claim$within
}

tolerance_text <- function(claim) {
  if (!is.null(claim$at_most)) {
    return(paste("at most", claim$at_most))
  }
  if (!is.null(claim$at_least)) {
    return(paste("at least", claim$at_least))
  }
  paste("within", claim$within)
}

# Tell whether a claim is about a published number of a single run.
of_single_run <- function(claim) isTRUE(claim$published_runs == 1)

# Judge a claim's number. A mean is `reproduced` or `not reproduced` only if its whole interval is
# within or beyond the limit.
verdict_of <- function(estimate, claim) {
  if (of_single_run(claim)) {
    verdict_of_run(estimate, claim)
  } else {
    verdict_of_mean(estimate, allowed_range(claim))
  }
}

verdict_of_mean <- function(estimate, range) {
  if (is.na(estimate$low) || is.na(estimate$high)) {
    "inconclusive"
  } else if (estimate$low >= range[1] && estimate$high <= range[2]) {
    "reproduced"
  } else if (estimate$high < range[1] || estimate$low > range[2]) {
    "not reproduced"
  } else {
    "inconclusive"
  }
}

# Judge a published number of a single run by the prediction interval of one run of ours. An
# interval that is wider than the limit allows would contain almost any number. A number outside the
# interval differs from ours; it is `near` if the whole interval is within the limit.
verdict_of_run <- function(estimate, claim) {
  range <- allowed_range(claim)
  if (is.na(estimate$low) || is.na(estimate$high)) {
    return("inconclusive")
  }
  within_limit <- estimate$low >= range[1] && estimate$high <= range[2]
  if (claim$published < estimate$low || claim$published > estimate$high) {
    if (within_limit) "near" else "outside"
  } else if (within_limit || estimate$high - estimate$low <= diff(range)) {
    "inside"
  } else if (run_width(estimate, Inf) > diff(range)) {
    "undecidable"
  } else {
    "inconclusive"
  }
}

# Estimate the width of the prediction interval of one run from another number of runs of ours.
run_width <- function(estimate, runs) {
  reach <- function(n) stats::qt((1 + interval_level) / 2, n - 1) * sqrt(1 + 1 / n)
  (estimate$high - estimate$low) * reach(runs) / reach(estimate$n)
}

# Estimate how many runs of ours would decide an inconclusive verdict; NA for other verdicts, and
# Inf if the number is at the edge of the limit.
runs_needed <- function(estimate, claim) {
  if (estimate$verdict != "inconclusive" || is.na(estimate$low) || is.na(estimate$high)) {
    return(NA_real_)
  }
  range <- allowed_range(claim)
  if (of_single_run(claim)) {
    more <- seq(estimate$n, 1000)
    return(c(more[run_width(estimate, more) <= diff(range)], Inf)[1])
  }
  # The interval crosses the nearer limit, and shrinks with the square root of the number of runs.
  reach <- abs(c(estimate$low, estimate$high) - estimate$value)
  if (!inside_limit(estimate, claim)) reach <- rev(reach)
  runs <- ceiling(estimate$n * max(reach / abs(estimate$value - range))^2)
  if (runs > 1000) Inf else runs
}

inside_limit <- function(estimate, claim) {
  range <- allowed_range(claim)
  estimate$value >= range[1] && estimate$value <= range[2]
}

# Explain why a number has no confidence interval.
why_no_interval <- function(estimate) {
  if (!is.na(estimate$low) && !is.na(estimate$high)) {
    return("")
  }
  if (estimate$n < min_runs) {
    return(paste0("n = ", estimate$n, ", but a confidence interval needs ", min_runs))
  }
  "this statistic, or a mean of zero, has no confidence interval"
}

# Compute a claim's number with its interval, or the reason why it has none.
measure_claim <- function(claim, data, level = interval_level) {
  kind <- claim_kinds[[claim$kind]]
  if (is.null(kind)) {
    stop(
      "claim ", claim$id, ": kind must be one of ", toString(names(claim_kinds)), ", found ",
      claim$kind
    )
  }
  absent <- why_not_measured(data, claim)
  estimate <- if (absent == "") kind(data, claim, level)
  if (absent == "" && is.na(estimate$value)) {
    absent <- if (estimate$n == 0) {
      "one of its cells has no counterpart"
    } else {
      "its runs give no number: they are too few or all equal, or it is a ratio to zero"
    }
  }
  if (absent != "") {
    estimate <- list(value = NA_real_, low = NA_real_, high = NA_real_, n = 0)
    return(c(estimate, verdict = "not measured", absent = absent))
  }
  c(
    as.list(estimate)[c("value", "low", "high", "n")],
    verdict = verdict_of(estimate, claim), absent = why_no_interval(estimate)
  )
}

# Evaluate a study's claims to one row each.
evaluate_claims <- function(claims, data, study) {
  dplyr::bind_rows(Map(
    \(claim, share) evaluate_claim(claim, data, study, level_of(share)),
    claims, error_shares(claims, data)
  ))
}

# Evaluate a claim to one row: the claim, its measured value, verdict and reason.
#
# `data` has the study's `cells` and `replicates`, with their derived metrics.
evaluate_claim <- function(claim, data, study, level = interval_level) {
  estimate <- measure_claim(claim, data, level)
  if (!is.null(claim$not_comparable) && estimate$verdict != "not measured") {
    estimate$verdict <- "not comparable"
    estimate$absent <- ""
  }
  reason <- reason_of(claim, data, estimate)
  # An observation has no confidence interval to show.
  deterministic <- estimate$n > 0 && all_deterministic(data, claim)
  observed <- deterministic || isTRUE(all.equal(estimate$low, estimate$high, tolerance = 1e-9))
  # tibble() would evaluate `claim` as the new column in the arguments after it.
  tibble::as_tibble(list(
    study = study,
    claim = claim$id,
    sentence = claim$sentence,
    source = claim$source,
    evidence = or_empty(claim$evidence),
    published = if (is.null(claim$published)) NA_real_ else as.numeric(claim$published),
    measured = estimate$value,
    low = if (observed) NA_real_ else estimate$low,
    high = if (observed) NA_real_ else estimate$high,
    n = estimate$n,
    interval = interval_words(claim, estimate, deterministic, level),
    unit = unit_of(claim),
    tolerance = tolerance_text(claim),
    limit_is = or_empty(claim$limit_is),
    limit_because = or_empty(claim$limit_because),
    verdict = estimate$verdict,
    runs_needed = runs_needed(estimate, claim),
    reason = reason$text,
    unsupported = reason$unsupported,
    cause = reason$cause,
    absent = estimate$absent
  ))
}

or_empty <- function(text) if (is.null(text)) "" else text

# Get the unit of a claim's number.
unit_of <- function(claim) {
  if (grepl("ratio|factor|over", claim$kind)) {
    return("times")
  }
  if (grepl("percent$", claim$kind)) {
    return("%")
  }
  if (claim$kind == "largest_loss_z") {
    return("standard errors")
  }
  metric_units[[metric_of(claim)]]
}
