# Tables of claims and their verdicts in a chapter.

# Choose decimal places that show three digits of a claim's number and its distance from the limit.
places_of <- function(claims) {
  ends <- strsplit(sub("^(within|at most|at least) ", "", claims$tolerance), " to ")
  bound <- as.numeric(vapply(ends, \(end) end[1], ""))
  upper <- as.numeric(vapply(ends, \(end) end[length(end)], ""))
  limit <- dplyr::case_when(
    grepl("^within", claims$tolerance) ~
      claims$published + ifelse(claims$measured < claims$published, -1, 1) * bound,
    # The nearer end of a range.
    abs(claims$measured - upper) < abs(claims$measured - bound) ~ upper,
    TRUE ~ bound
  )
  scale <- pmax(abs(claims$measured), abs(limit), na.rm = TRUE)
  scale <- ifelse(scale %in% c(0, NA), 1000, scale)
  slack <- abs(claims$measured - limit)
  slack <- ifelse(slack %in% c(0, NA), scale, pmax(slack, 1e-4))
  pmin(pmax(3 - ceiling(log10(scale)), ceiling(-log10(slack)) + 1, 0), 5)
}

# Format a claim's number with its interval and unit. A prediction interval is marked.
number_of_claim <- function(claims) {
  with_places <- function(x, places) {
    as.character(mapply(fixed_or_empty, x, places))
  }
  places <- places_of(claims)
  number <- with_places(claims$measured, places)
  # A prediction interval is wider than the mean's confidence interval, and says another thing.
  kind <- ifelse(startsWith(claims$interval, "prediction"), "prediction: ", "")
  interval <- paste0(
    " [", kind, with_places(claims$low, places), ", ", with_places(claims$high, places), "]"
  )
  unit <- ifelse(as_text(claims$unit, "") == "", "", paste0(" ", claims$unit))
  ifelse(number == "", "", paste0(number, ifelse(is.na(claims$low), "", interval), unit))
}

anchor_of <- function(claims) paste0("why-", claims$study, "-", gsub("[.]", "-", claims$claim))

# Tell which claims this campaign has no cells for, so that their verdicts need no reason.
without_cells <- function(claims) {
  claims$verdict == "not measured" & as_text(claims$absent, "") == no_such_cell
}

verdict_in_cell <- function(claims) {
  word <- ifelse(
    claims$verdict %in% agreeing | without_cells(claims), claims$verdict,
    paste0("[", claims$verdict, "](#", anchor_of(claims), ")")
  )
  paste0(
    "[", verdict_signs[claims$verdict], "\u00a0", word, "]{.verdict .verdict-",
    gsub(" ", "-", claims$verdict), "}"
  )
}

show_claims <- function(claims) {
  claims |>
    dplyr::transmute(
      Study = study,
      Claim = paste0(
        sentence, " (", ifelse(is.na(source), "", paste0(source, "; ")), evidence, ")"
      ),
      Verdict = verdict_in_cell(claims), Published = short_or_empty(published),
      `Measured [95 %]` = number_of_claim(claims), Limit = tolerance,
      `Set by` = limit_is, n = ifelse(n > 0, as.character(n), "")
    ) |>
    dplyr::mutate(dplyr::across(dplyr::everything(), \(x) dplyr::coalesce(x, ""))) |>
    show_table(align = "lllllllr")
}

# What a verdict says about the source, for one claim and for several (claims.schema.yaml explains).
evidence_names <- list(
  predicted = c("prediction", "predictions"),
  "not fitted" = c("number to which nothing was fitted", "numbers to which nothing was fitted"),
  order = c("order or sign", "orders and signs"),
  fitted = c("fitted number", "fitted numbers"),
  configured = c("configured number", "configured numbers"),
  own = c("expectation of our own", "expectations of our own")
)

# Count claims by verdict: "3 are reproduced, 2 are not reproduced and 1 is inconclusive".
count_text <- function(claims) {
  counts <- vapply(verdicts, function(verdict) sum(claims$verdict == verdict), 1L)
  words <- Map(function(verdict, count) {
    paste(count, if (count == 1) "is" else "are", verdict)
  }, verdicts, counts)
  enumerate(unlist(words)[counts > 0], 8)
}

# Count claims by evidence and verdict: "of 9 orders and signs, 3 are reproduced ...". Fitted and
# configured numbers are no evidence of reproduction, and our own expectations are not about the
# source.
count_verdicts_text <- function(claims) {
  shown <- intersect(c("predicted", "not fitted", "order"), claims$evidence)
  if (length(shown) == 0) {
    shown <- intersect(names(evidence_names), claims$evidence)
  }
  parts <- vapply(shown, function(kind) {
    rows <- claims[claims$evidence == kind, ]
    name <- evidence_names[[kind]][[if (nrow(rows) == 1) 1 else 2]]
    caused <- sum(as_text(rows$cause, "") != "")
    paste0(
      "of ", nrow(rows), " ", name, ", ", count_text(rows),
      if (caused > 0) paste0(
        " (our runs show the cause of ", caused, if (caused == 1) " verdict)" else " verdicts)"
      )
    )
  }, "")
  paste(parts, collapse = "; ")
}

# Tabulate the verdicts: a row for each study and kind of evidence, and a column for each verdict
# that any claim has.
count_verdicts <- function(claims) {
  claims |>
    dplyr::mutate(
      Study = factor(study, unique(study)), verdict = factor(verdict, verdicts),
      Evidence = factor(evidence, intersect(names(evidence_names), evidence))
    ) |>
    dplyr::count(Study, Evidence, verdict) |>
    dplyr::arrange(verdict) |>
    tidyr::pivot_wider(names_from = verdict, values_from = n) |>
    dplyr::arrange(Evidence, Study) |>
    dplyr::relocate(Evidence)
}

# List the reasons of all verdicts that do not agree; "" if there are none.
explain_verdicts <- function(claims) {
  absent <- sum(without_cells(claims))
  absent_text <- if (absent > 0) {
    paste0(
      "For ", absent, if (absent == 1) " claim" else " claims", ", this campaign has no cells."
    )
  }
  claims <- claims[!claims$verdict %in% agreeing & !without_cells(claims), ]
  if (nrow(claims) == 0) {
    return(if (is.null(absent_text)) "" else absent_text)
  }
  why <- dplyr::case_when(
    claims$verdict == "not measured" ~ breakable(as_text(claims$absent, "")),
    claims$verdict == "inconclusive" & as_text(claims$absent, "") != "" ~
      as_text(claims$absent, ""),
    claims$verdict %in% unresolved ~ paste0(
      as_text(claims$reason, ""), " The limit is: ", claims$tolerance, "."
    ),
    as_text(claims$unsupported, "") != "" ~ paste0("**", capital(claims$unsupported), "**"),
    as_text(claims$reason, "") == "" ~ "We do not know why.",
    TRUE ~ claims$reason
  )
  lines <- paste0(
    "- [", capital(claims$verdict), ":]{#", anchor_of(claims), " .verdict .verdict-",
    gsub(" ", "-", claims$verdict), "} ", claims$sentence, " ", full_stop(capital(why))
  )
  paste(c("Reasons for the verdicts:", "", lines, "", absent_text), collapse = "\n")
}

# List the reasons for the limits, each with its claims.
explain_limits <- function(claims) {
  claims <- claims[as_text(claims$limit_is, "") != "", ]
  if (nrow(claims) == 0) {
    return("")
  }
  whose <- c(source = "the source's", ours = "ours")
  because <- factor(claims$limit_because, unique(claims$limit_because))
  lines <- vapply(split(claims, because), function(rows) {
    limits <- unique(paste0(rows$tolerance, " (", rows$claim, ")"))
    paste0(
      "- ", capital(enumerate(limits, 20)), ", ", whose[rows$limit_is[1]], ": ",
      full_stop(rows$limit_because[1])
    )
  }, "")
  paste(c("Reasons for the limits:", "", lines), collapse = "\n")
}

# Explain verdicts and limits: a section per study.
explain_by_study <- function(claims) {
  parts <- lapply(unique(claims$study), function(name) {
    own <- claims[claims$study == name, ]
    words <- c(explain_verdicts(own), explain_limits(own))
    if (all(words == "")) {
      return(NULL)
    }
    c(paste0("## Reasons: ", name, " {#sec-reasons-", name, "}"), words[words != ""])
  })
  paste(unlist(parts), collapse = "\n\n")
}

capital <- function(text) paste0(toupper(substr(text, 1, 1)), substr(text, 2, nchar(text)))

full_stop <- function(text) ifelse(grepl("[.]\\**$", text), text, paste0(text, "."))
