# Tables of claims and their verdicts in a chapter.

verdicts <- c("reproduced", "not reproduced", "inconclusive", "not comparable", "not measured")

# Choose decimal places that show three digits of a claim's number and its distance from the limit.
places_of <- function(claims) {
  bound <- as.numeric(sub("^(within|at most|at least) ", "", claims$tolerance))
  limit <- ifelse(
    grepl("^within", claims$tolerance),
    claims$published + ifelse(claims$measured < claims$published, -1, 1) * bound, bound
  )
  scale <- pmax(abs(claims$measured), abs(limit), na.rm = TRUE)
  scale <- ifelse(scale %in% c(0, NA), 1000, scale)
  slack <- abs(claims$measured - limit)
  slack <- ifelse(slack == 0, scale, pmax(slack, 1e-4))
  pmin(pmax(3 - ceiling(log10(scale)), ceiling(-log10(slack)) + 1, 0), 5)
}

# Format a claim's number with its confidence interval and unit.
number_of_claim <- function(claims) {
  with_places <- function(x, places) {
    text <- mapply(fixed_or_empty, x + 0, places)
    # Remove the sign of a negative zero.
    sub("^-(0[.]?0*)$", "\\1", as.character(text))
  }
  places <- places_of(claims)
  number <- with_places(claims$measured, places)
  interval <- paste0(
    " [", with_places(claims$low, places), ", ", with_places(claims$high, places), "]"
  )
  unit <- ifelse(as_text(claims$unit, "") == "", "", paste0(" ", claims$unit))
  ifelse(number == "", "", paste0(number, ifelse(is.na(claims$low), "", interval), unit))
}

# Symbols of the verdicts, also used in the figure on the first page.
verdict_signs <- c(
  reproduced = "\u25cf", "not reproduced" = "\u25a0", inconclusive = "\u25cb",
  "not comparable" = "\u25c7", "not measured" = "\u2013"
)

anchor_of <- function(claims) paste0("why-", claims$study, "-", gsub("[.]", "-", claims$claim))

verdict_in_cell <- function(claims) {
  word <- ifelse(
    claims$verdict == "reproduced", claims$verdict,
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
      Claim = paste0(sentence, ifelse(is.na(source), "", paste0(" (", source, ")"))),
      Verdict = verdict_in_cell(claims), Published = short_or_empty(published),
      `Measured [95 %]` = number_of_claim(claims), Limit = tolerance,
      n = ifelse(n > 0, as.character(n), "")
    ) |>
    dplyr::mutate(dplyr::across(dplyr::everything(), \(x) dplyr::coalesce(x, ""))) |>
    show_table(align = "lllllr", widths = c(40, 17, 11, 21, 13, 6))
}

# Count the reproduced claims: "3 of 12".
share_reproduced <- function(claims) {
  paste(sum(claims$verdict == "reproduced"), "of", nrow(claims))
}

# Count claims by verdict: "3 of 12 are reproduced, 2 are not reproduced and 1 is inconclusive".
count_verdicts_text <- function(claims) {
  counts <- vapply(verdicts, function(verdict) sum(claims$verdict == verdict), 1L)
  first <- paste(counts[1], "of", nrow(claims), if (counts[1] == 1) "is" else "are", "reproduced")
  rest <- counts[-1][counts[-1] > 0]
  words <- vapply(names(rest), function(verdict) {
    one <- rest[[verdict]] == 1
    paste(rest[[verdict]], if (one) "is" else "are", verdict)
  }, "")
  enumerate(c(first, words))
}

# Tabulate the verdicts: a row per study, a column per verdict.
count_verdicts <- function(claims) {
  counts <- table(factor(claims$study, unique(claims$study)), factor(claims$verdict, verdicts))
  rows <- tibble::as_tibble(as.data.frame.matrix(counts))
  rows <- dplyr::bind_cols(tibble::tibble(Study = rownames(counts)), rows)
  total <- dplyr::bind_cols(
    tibble::tibble(Study = "all"), tibble::as_tibble(as.list(colSums(as.matrix(rows[-1]))))
  )
  shown <- if (nrow(rows) > 1) dplyr::bind_rows(rows, total) else rows
  dplyr::rename_with(shown, capital)
}

# List the reasons of all verdicts other than `reproduced`; "" if there are none.
explain_verdicts <- function(claims) {
  claims <- claims[claims$verdict != "reproduced", ]
  if (nrow(claims) == 0) {
    return("")
  }
  why <- dplyr::case_when(
    claims$verdict == "not measured" ~ breakable(as_text(claims$absent, "")),
    claims$verdict == "inconclusive" & as_text(claims$absent, "") != "" ~
      as_text(claims$absent, ""),
    claims$verdict == "inconclusive" ~
      paste0("the confidence interval contains the limit, ", claims$tolerance),
    as_text(claims$unsupported, "") != "" ~ paste0("**", claims$unsupported, "**"),
    TRUE ~ as_text(claims$reason, "")
  )
  lines <- paste0(
    "- [", capital(claims$verdict), ":]{#", anchor_of(claims), " .verdict .verdict-",
    gsub(" ", "-", claims$verdict), "} ", claims$sentence, " ", full_stop(capital(why))
  )
  paste(c("Reasons for the verdicts:", "", lines), collapse = "\n")
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

capital <- function(text) paste0(toupper(substr(text, 1, 1)), substr(text, 2, nchar(text)))

full_stop <- function(text) ifelse(grepl("[.]\\**$", text), text, paste0(text, "."))
