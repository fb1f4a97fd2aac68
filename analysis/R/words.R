# Numbers as words, in sentences and in tables, also where there is no number.

not_measured <- "(not measured)"

# The value of `column` in the one row that the conditions in `...` select: every number of a
# sentence is looked up here. NA where there is no such row.
look_up <- function(data, column, ...) {
  found <- dplyr::filter(data, ...)
  if (nrow(found) > 1) {
    stop("a look-up of ", column, " must select one row, found ", nrow(found))
  }
  if (nrow(found) == 0) NA else found[[column]]
}

# Extremes of the values that are there; NA of none.
least <- function(x) if (all(is.na(x))) NA_real_ else min(x, na.rm = TRUE)
most <- function(x) if (all(is.na(x))) NA_real_ else max(x, na.rm = TRUE)

# Words, with others where there are none.
said <- function(x, without = not_measured) ifelse(is.na(x), without, as.character(x))

# With a number of decimal places.
fixed <- function(x, digits, without = not_measured) {
  ifelse(is.na(x), without, formatC(as.numeric(x), format = "f", digits = digits))
}

# With a number of significant digits, without exponents.
short <- function(x, digits = 3, without = not_measured) {
  ifelse(
    is.na(x), without,
    trimws(formatC(as.numeric(x), format = "fg", digits = digits, big.mark = ""))
  )
}

# The same in a table, where an empty field says that there is nothing.
fixed_or_empty <- function(x, digits) fixed(x, digits, "")
short_or_empty <- function(x, digits = 3) short(x, digits, "")

# A number with its interval, if that has a width.
with_interval <- function(x, low, high, digits, as = fixed_or_empty) {
  text <- as(x, digits)
  ifelse(
    is.na(low) | is.na(high) | low == high, text,
    paste0(text, " (", as(low, digits), " to ", as(high, digits), ")")
  )
}

# A table in Markdown. One without rows says so. `widths` are its columns' relative widths; without
# them a column is as wide as what it holds.
show_table <- function(rows, align = NULL, widths = NULL) {
  if (nrow(rows) == 0) {
    rows <- tibble::tibble(" " = "Nothing to show: too few of its cells have a valid replicate.")
    align <- "l"
    widths <- NULL
  }
  if (is.null(align)) {
    align <- paste(ifelse(vapply(rows, is.numeric, TRUE), "r", "l"), collapse = "")
  }
  # What is not there is an empty field.
  old <- options(knitr.kable.NA = "")
  on.exit(options(old))
  write_latex(rows, align)
  table <- knitr::kable(rows, format = "pipe", align = align)
  if (!is.null(widths)) {
    # The line below the header says them, where a line is longer than a page.
    dashes <- strrep("-", round(widths / sum(widths) * 250))
    ends <- ifelse(strsplit(align, "")[[1]] == "r", ":", "-")
    starts <- ifelse(ends == "-", ":", "-")
    table[2] <- paste0("|", paste0(starts, dashes, ends, collapse = "|"), "|")
  }
  table
}

# A table of the report as LaTeX (booktabs), for papers, where a folder for such lies here.
write_latex <- function(rows, align, label = knitr::opts_current$get("label")) {
  if (is.null(label) || !startsWith(label, "tbl-") || !dir.exists("tables")) {
    return(invisible())
  }
  rows <- dplyr::mutate(rows, dplyr::across(dplyr::everything(), \(x) plain_words(as.character(x))))
  names(rows) <- plain_words(names(rows))
  table <- knitr::kable(rows, format = "latex", booktabs = TRUE, align = align, linesep = "")
  writeLines(as.character(table), file.path("tables", paste0(label, ".tex")))
}

# Words without the marks that Markdown has for their looks.
plain_words <- function(text) {
  text <- gsub("\\[([^][]*)\\]\\([^)]*\\)", "\\1", text)
  text <- gsub("\\[([^][]*)\\]\\{[^}]*\\}", "\\1", text)
  text <- gsub("[*`\u200b]|[\u25cf\u25a0\u25cb\u25c7]\u00a0", "", text)
  gsub("\\\\([][\\\\_{}()#+!<>@$~^-])", "\\1", text)
}
