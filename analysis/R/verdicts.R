# Verdicts of claims: the number with its confidence interval, its limit, the verdict, and the
# reason of a claim that is not reproduced, as long as its supporting statement is true.

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

# Judge a number: `reproduced` or `not reproduced` only if the whole interval is within or beyond
# the limit.
verdict_of <- function(found, range) {
  if (is.na(found$low) || is.na(found$high)) {
    "inconclusive"
  } else if (found$low >= range[1] && found$high <= range[2]) {
    "reproduced"
  } else if (found$high < range[1] || found$low > range[2]) {
    "not reproduced"
  } else {
    "inconclusive"
  }
}

# Explain why a number has no confidence interval.
why_no_interval <- function(found) {
  if (!is.na(found$low) && !is.na(found$high)) {
    return("")
  }
  if (found$n < min_runs) {
    return(paste0("n = ", found$n, ", but a confidence interval needs ", min_runs))
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
  found <- if (absent == "") kind(data, claim, level)
  if (absent == "" && is.na(found$value)) {
    absent <- "one of its cells has no counterpart"
  }
  if (absent != "") {
    found <- list(value = NA_real_, low = NA_real_, high = NA_real_, n = 0)
    return(c(found, verdict = "not measured", absent = absent))
  }
  c(
    as.list(found)[c("value", "low", "high", "n")],
    verdict = verdict_of(found, allowed_range(claim)), absent = why_no_interval(found)
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
  found <- measure_claim(claim, data, level)
  if (!is.null(claim$not_comparable) && found$verdict != "not measured") {
    found$verdict <- "not comparable"
    found$absent <- ""
  }
  reason <- reason_of(claim, data, found)
  # An observation has no confidence interval to show.
  deterministic <- found$n > 0 && all_deterministic(data, claim)
  observed <- deterministic || isTRUE(all.equal(found$low, found$high, tolerance = 1e-9))
  # tibble() would evaluate `claim` as the new column in the arguments after it.
  tibble::as_tibble(list(
    study = study,
    claim = claim$id,
    sentence = claim$sentence,
    source = claim$source,
    evidence = or_empty(claim$evidence),
    published = if (is.null(claim$published)) NA_real_ else as.numeric(claim$published),
    measured = found$value,
    low = if (observed) NA_real_ else found$low,
    high = if (observed) NA_real_ else found$high,
    n = found$n,
    interval = interval_words(claim, found, deterministic, level),
    unit = unit_of(claim),
    tolerance = tolerance_text(claim),
    limit_is = or_empty(claim$limit_is),
    limit_because = or_empty(claim$limit_because),
    verdict = found$verdict,
    reason = reason$text,
    unsupported = reason$unsupported,
    cause = reason$cause,
    absent = found$absent
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
