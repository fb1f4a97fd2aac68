# How claims and their verdicts are shown in a chapter.

verdicts <- c("reproduced", "differs", "undecided", "not comparable", "not measured")

# A number with its interval, and how many runs of each cell it is of.
number_of_claim <- function(claims) {
  paste0(
    short_or_empty(claims$measured + 0, 4),
    ifelse(
      is.na(claims$low), "",
      paste0(" [", short_or_empty(claims$low, 3), ", ", short_or_empty(claims$high, 3), "]")
    )
  )
}

show_claims <- function(claims) {
  claims |>
    dplyr::transmute(
      Claim = sentence, Source = source, Published = short_or_empty(published),
      Measured = number_of_claim(claims), n = ifelse(n > 0, as.character(n), ""), Unit = unit,
      Limit = tolerance,
      Verdict = ifelse(verdict == "reproduced", verdict, paste0("*", verdict, "*"))
    ) |>
    dplyr::mutate(dplyr::across(dplyr::everything(), \(x) dplyr::coalesce(x, ""))) |>
    dplyr::select(tidyselect::where(\(column) any(column != ""))) |>
    show_table()
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
  lines <- paste0("- ", claims$sentence, " *", capital(claims$verdict), ":* ", full_stop(why))
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
