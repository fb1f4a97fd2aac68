# Reasons of verdicts. A reason is a list of sentences, each with evidence that states the same: a
# claim on the study's cells that must itself be reproduced (`shown_by`), published numbers
# (`published`) or a test (`test`). losslab.study.claims checks the last two before a campaign. A
# sentence with `cause` states the cause of the verdict, which its runs show: cells that differ in
# the supposed cause only, from the claim's or from those of a sentence before, have another number
# (`difference`) or scatter less (`scatter`). The latter explains only undecidable and inconclusive
# verdicts.

# Get the reason of a verdict, and why its evidence fails, if it does. A claim that differs must
# have a reason that holds, unless it is a prediction. An undecidable or inconclusive one has a
# generated reason, and its own only as long as that holds.
reason_of <- function(claim, data, estimate) {
  if (estimate$verdict == "not comparable") {
    return(list(text = claim$not_comparable, unsupported = "", cause = ""))
  }
  if (!estimate$verdict %in% c(differing, unresolved)) {
    return(list(text = "", unsupported = "", cause = ""))
  }
  judged <- lapply(claim$reason, judge_sentence, data = data, claim = claim)
  # Not every campaign measures the cells that show a cause, or lead to it.
  last <- max(0, which(vapply(judged, \(sentence) sentence$cause != "", NA)))
  stated <- judged[vapply(judged, \(sentence) sentence$measured, NA) | seq_along(judged) > last]
  text <- paste(vapply(stated, \(sentence) sentence$text, ""), collapse = " ")
  false <- Filter(\(sentence) sentence$unsupported != "", stated)
  shown <- vapply(stated, \(sentence) sentence$cause, "")
  explains <- c("difference", if (estimate$verdict %in% unresolved) "scatter")
  cause <- c(if (length(false) == 0) intersect(explains, shown), "")[1]
  if (estimate$verdict %in% unresolved) {
    parts <- c(why_unresolved(estimate, claim), if (length(false) == 0) text)
    text <- paste(parts[parts != ""], collapse = " ")
    return(list(text = text, unsupported = "", cause = cause))
  }
  unsupported <- if (length(stated) == 0) {
    # Its text was committed before the runs, and stays as it was.
    if (identical(claim$evidence, "predicted")) "" else "the claim has no reason"
  } else {
    paste(vapply(false, \(sentence) sentence$unsupported, ""), collapse = "; ")
  }
  list(text = text, unsupported = unsupported, cause = cause)
}

# Judge the evidence of one sentence; `{value}` in its text becomes the evidence's number.
judge_sentence <- function(sentence, data, claim) {
  support <- sentence$shown_by
  if (is.null(support)) {
    return(list(text = sentence$text, unsupported = "", cause = "", measured = TRUE))
  }
  support$id <- paste0(claim$id, " (reason)")
  estimate <- measure_claim(support, data)
  number <- if (support$kind == "scatter_ratio") {
    as_share(estimate$value)
  } else {
    short(estimate$value, 3)
  }
  text <- gsub("{value}", number, sentence$text, fixed = TRUE)
  unsupported <- if (estimate$verdict == "reproduced") {
    ""
  } else {
    paste0(
      "its reason is ", estimate$verdict, ": ", short(estimate$value, 4), " (",
      short(estimate$low, 4), " to ", short(estimate$high, 4), "), ", tolerance_text(support)
    )
  }
  list(
    text = text, unsupported = unsupported, cause = kind_of_cause(sentence),
    measured = estimate$verdict != "not measured"
  )
}

# Format a ratio as a whole percentage, as in "scatters 12 % as much".
as_share <- function(ratio) {
  if (isTRUE(ratio < 0.005)) "less than 1 %" else paste(round(100 * ratio), "%")
}

kind_of_cause <- function(sentence) {
  if (!isTRUE(sentence$cause)) {
    return("")
  }
  if (sentence$shown_by$kind == "scatter_ratio") "scatter" else "difference"
}

# State why a verdict is undecidable or inconclusive, and how many runs would decide it.
why_unresolved <- function(estimate, claim) {
  if (is.na(estimate$low) || is.na(estimate$high)) {
    return(full_stop(capital(estimate$absent)))
  }
  runs <- runs_needed(estimate, claim)
  enough <- if (!is.finite(runs)) {
    "More than 1000 runs would be needed: the value is at the edge of the limit."
  } else {
    paste("With the same scatter, about", runs, "runs would decide.")
  }
  if (of_single_run(claim)) {
    deviation <- run_width(estimate, Inf) / 2 / stats::qnorm((1 + interval_level) / 2)
    percent <- 100 * abs(deviation / estimate$value)
    return(paste0(
      "The source has one run, and ours scatter by ", short(percent, 2), " %. ",
      if (estimate$verdict == "undecidable") {
        "For any number of runs of ours, the interval of one run is wider than the limit."
      } else {
        enough
      }
    ))
  }
  paste0(
    "The value is ", if (inside_limit(estimate, claim)) "within" else "beyond",
    " the limit, and the ", estimate$n, " runs scatter so much that the interval crosses it. ",
    enough
  )
}
