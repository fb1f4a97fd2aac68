# How claims and their verdicts are shown in a chapter.

verdicts <- c("reproduced", "differs", "undecided", "not comparable", "not measured")

# Decimal places that show a claim's number three digits deep, and on which side of its limit it is.
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

# A number with its interval and its unit.
number_of_claim <- function(claims) {
  with_places <- function(x, places) {
    text <- mapply(fixed_or_empty, x + 0, places)
    # No zero has a sign.
    sub("^-(0[.]?0*)$", "\\1", as.character(text))
  }
  places <- places_of(claims)
  number <- with_places(claims$measured, places)
  interval <- paste0(
    " [", with_places(claims$low, places), ", ", with_places(claims$high, places), "]"
  )
  unit <- ifelse(said(claims$unit, "") == "", "", paste0(" ", claims$unit))
  ifelse(number == "", "", paste0(number, ifelse(is.na(claims$low), "", interval), unit))
}

# A verdict's sign, which the first page's figure has, too, and its word, which leads to its reason.
verdict_signs <- c(
  reproduced = "\u25cf", differs = "\u25a0", undecided = "\u25cb", "not comparable" = "\u25c7",
  "not measured" = "\u2013"
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

# "3 of 12".
share_that_holds <- function(claims) {
  paste(sum(claims$verdict == "reproduced"), "of", nrow(claims))
}

# "3 of 12 are reproduced, 2 differ, 1 is undecided".
verdicts_in_words <- function(claims) {
  counts <- vapply(verdicts, function(verdict) sum(claims$verdict == verdict), 1L)
  first <- paste(counts[1], "of", nrow(claims), if (counts[1] == 1) "is" else "are", "reproduced")
  rest <- counts[-1][counts[-1] > 0]
  words <- vapply(names(rest), function(verdict) {
    one <- rest[[verdict]] == 1
    if (verdict == "differs") {
      return(paste(rest[[verdict]], if (one) "differs" else "differ"))
    }
    paste(rest[[verdict]], if (one) "is" else "are", verdict)
  }, "")
  enumerate(c(first, words))
}

# A row per study, a column per verdict.
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

# What stands behind each verdict that is not `reproduced`; empty where all are.
unjudged <- function(claims) {
  claims <- claims[claims$verdict != "reproduced", ]
  if (nrow(claims) == 0) {
    return("")
  }
  why <- dplyr::case_when(
    claims$verdict == "not measured" ~ breakable(said(claims$absent, "")),
    claims$verdict == "undecided" & said(claims$absent, "") != "" ~ said(claims$absent, ""),
    claims$verdict == "undecided" ~ paste0("the interval has the limit, ", claims$tolerance),
    said(claims$unsupported, "") != "" ~ paste0("**", claims$unsupported, "**"),
    TRUE ~ said(claims$reason, "")
  )
  lines <- paste0(
    "- [", capital(claims$verdict), ":]{#", anchor_of(claims), " .verdict .verdict-",
    gsub(" ", "-", claims$verdict), "} ", claims$sentence, " ", full_stop(capital(why))
  )
  paste(c("Behind the verdicts:", "", lines), collapse = "\n")
}

# Why limits are where they are: a line for each reason, with its claims' limits.
limits_in_words <- function(claims) {
  claims <- claims[said(claims$limit_is, "") != "", ]
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
  paste(c("Why the limits are where they are:", "", lines), collapse = "\n")
}

capital <- function(text) paste0(toupper(substr(text, 1, 1)), substr(text, 2, nchar(text)))

full_stop <- function(text) ifelse(grepl("[.]\\**$", text), text, paste0(text, "."))
