# Reasons of verdicts. A reason is a list of sentences, each with evidence that states the same: a
# claim on the study's cells that must itself be reproduced (`shown_by`), published numbers
# (`published`) or a test (`test`). losslab.study.claims checks the last two before a campaign. A
# sentence with `cause` states the cause of the verdict, which its runs show: cells without the
# supposed cause have another number (`difference`), or scatter less (`scatter`). The latter
# explains only inconclusive verdicts.

# Get the reason of a verdict, and why its evidence fails, if it does. A claim that is not
# reproduced must have a reason that holds. An inconclusive one has a generated cause, and its own
# reason only as long as that holds.
reason_of <- function(claim, data, found) {
  if (found$verdict == "not comparable") {
    return(list(text = claim$not_comparable, unsupported = "", cause = ""))
  }
  if (!found$verdict %in% c("not reproduced", "inconclusive")) {
    return(list(text = "", unsupported = "", cause = ""))
  }
  judged <- lapply(claim$reason, judge_sentence, data = data, claim = claim)
  # Not every campaign measures the cells that show a cause.
  own <- Filter(\(sentence) sentence$measured || sentence$cause == "", judged)
  text <- paste(vapply(own, \(sentence) sentence$text, ""), collapse = " ")
  false <- Filter(\(sentence) sentence$unsupported != "", own)
  shown <- vapply(own, \(sentence) sentence$cause, "")
  explains <- c("difference", if (found$verdict == "inconclusive") "scatter")
  cause <- c(if (length(false) == 0) intersect(explains, shown), "")[1]
  if (found$verdict == "inconclusive") {
    scatter <- why_inconclusive(found, allowed_range(claim), claim$published_runs)
    parts <- c(scatter, if (length(false) == 0) text)
    text <- paste(parts[parts != ""], collapse = " ")
    return(list(text = text, unsupported = "", cause = cause))
  }
  unsupported <- if (length(own) == 0) {
    "the claim has no reason"
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
  found <- measure_claim(support, data)
  number <- if (support$kind == "scatter_ratio") {
    as_share(found$value)
  } else {
    short(found$value, 3)
  }
  text <- gsub("{value}", number, sentence$text, fixed = TRUE)
  unsupported <- if (found$verdict == "reproduced") {
    ""
  } else {
    paste0(
      "its reason is ", found$verdict, ": ", short(found$value, 4), " (",
      short(found$low, 4), " to ", short(found$high, 4), "), ", tolerance_text(support)
    )
  }
  list(
    text = text, unsupported = unsupported, cause = kind_of_cause(sentence),
    measured = found$verdict != "not measured"
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

# State the likely cause of an inconclusive verdict from its numbers: how far the value is from the
# limit that the confidence interval crosses, compared with how far the interval reaches beyond the
# value. That falls with the square root of the number of runs, except for a prediction interval,
# which keeps the scatter of the source's own `published_runs`.
why_inconclusive <- function(found, range, published_runs = NULL) {
  if (is.na(found$low) || is.na(found$high)) {
    return(full_stop(capital(found$absent)))
  }
  inside <- found$value >= range[1] && found$value <= range[2]
  distance <- abs(found$value - range)
  reach <- if (inside) {
    c(found$value - found$low, found$high - found$value)
  } else {
    c(found$high - found$value, found$value - found$low)
  }
  crossed <- which.max(reach / distance)
  runs <- ceiling(found$n * (reach[crossed] / distance[crossed])^2)
  enough <- if (!is.null(published_runs)) {
    paste0(
      "The source has ", published_runs, if (published_runs == 1) " run" else " runs",
      ", which may be anywhere in this interval, so more runs of ours would not decide."
    )
  } else if (runs > 1000) {
    "More than 1000 runs would be needed: the value is at the edge of the limit."
  } else {
    paste("With the same scatter, about", runs, "runs would decide.")
  }
  paste0(
    "The value is ", if (inside) "within" else "beyond", " the limit by ",
    short(distance[crossed], 2), ", and the ", found$n,
    " runs scatter so much that the confidence interval reaches ", short(reach[crossed], 2),
    " further. ", enough
  )
}
