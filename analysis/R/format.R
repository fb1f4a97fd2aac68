# Numbers as text in sentences and tables, and tables in Markdown and LaTeX.

not_measured <- "(not measured)"

# Look up `column` in the only row that the conditions in `...` select; NA if the campaign has none.
# A column or value that no campaign has is an error.
look_up <- function(data, column, ...) {
  require_column(data, column)
  # Chapters look up thousands of numbers, and dplyr::filter() first puts each condition into words.
  conditions <- rlang::enquos(...)
  kept <- Reduce(`&`, lapply(conditions, rlang::eval_tidy, data), TRUE)
  found <- data[which(rep_len(kept, nrow(data))), ]
  if (nrow(found) > 1) {
    stop("a look-up of ", column, " must select one row, found ", nrow(found))
  }
  if (nrow(found) == 0) {
    require_declared_keys(conditions, data)
    return(NA)
  }
  found[[column]]
}

# Minimum and maximum of the values that are not missing; NA if all are.
min_present <- function(x) if (all(is.na(x))) NA_real_ else min(x, na.rm = TRUE)
max_present <- function(x) if (all(is.na(x))) NA_real_ else max(x, na.rm = TRUE)

# Format a value as text, with a replacement if it is missing.
as_text <- function(x, if_missing = not_measured) ifelse(is.na(x), if_missing, as.character(x))

# Format a number with fixed decimal places.
fixed <- function(x, digits, if_missing = not_measured) {
  text <- formatC(as.numeric(x), format = "f", digits = digits)
  # A negative number that is rounded to zero has no sign.
  ifelse(is.na(x), if_missing, sub("^-(0[.]?0*)$", "\\1", text))
}

# Format a number with significant digits, without an exponent.
short <- function(x, digits = 3, if_missing = not_measured) {
  ifelse(
    is.na(x), if_missing,
    trimws(formatC(as.numeric(x), format = "fg", digits = digits, big.mark = ""))
  )
}

# Variants for tables: a missing value is an empty field.
fixed_or_empty <- function(x, digits) fixed(x, digits, "")
short_or_empty <- function(x, digits = 3) short(x, digits, "")

# Format a number with its confidence interval. If the runs do not vary, it says so instead: their
# number means nothing then.
with_interval <- function(x, low, high, digits, as = fixed_or_empty) {
  # Without rows, it would be logical.
  text <- as.character(as(x, digits))
  equal <- abs(high - low) <= deterministic_share * abs(x)
  dplyr::case_when(
    is.na(low) | is.na(high) ~ text,
    equal ~ paste(text, "(deterministic)"),
    TRUE ~ paste0(text, " (", as(low, digits), " to ", as(high, digits), ")")
  )
}

# What a table without rows says; the report does not print it (exhibits.R).
no_rows <- "Nothing to show: this campaign has too few of its cells, or they do not differ."

# Show a table in Markdown, or a note if it has no rows. The columns have the relative widths of the
# chunk's option `tbl-colwidths`, which Quarto reads, too; by default, that of their content.
show_table <- function(rows, align = NULL) {
  widths <- knitr::opts_current$get("tbl-colwidths")
  if (nrow(rows) == 0) {
    rows <- tibble::tibble(" " = no_rows)
    align <- "l"
    widths <- NULL
  }
  if (is.null(align)) {
    align <- paste(ifelse(vapply(rows, is.numeric, TRUE), "r", "l"), collapse = "")
  }
  # Missing values are empty fields.
  old <- options(knitr.kable.NA = "")
  on.exit(options(old))
  write_latex(rows, align)
  table <- knitr::kable(rows, format = "pipe", align = align)
  if (!is.null(widths)) {
    # Markdown takes the widths from the line below the header if a row is wider than the page.
    dashes <- strrep("-", round(widths / sum(widths) * 250))
    ends <- ifelse(strsplit(align, "")[[1]] == "r", ":", "-")
    starts <- ifelse(ends == "-", ":", "-")
    table[2] <- paste0("|", paste0(starts, dashes, ends, collapse = "|"), "|")
  }
  table
}

# Write a table of the report as LaTeX (booktabs) for papers, if the folder `latex` exists.
write_latex <- function(rows, align, label = knitr::opts_current$get("label")) {
  if (is.null(label) || !startsWith(label, "tbl-") || !dir.exists("latex")) {
    return(invisible())
  }
  rows <- dplyr::mutate(rows, dplyr::across(dplyr::everything(), \(x) plain_words(as.character(x))))
  names(rows) <- plain_words(names(rows))
  table <- knitr::kable(rows, format = "latex", booktabs = TRUE, align = align, linesep = "")
  writeLines(as.character(table), file.path("latex", paste0(label, ".tex")))
}

# Remove Markdown's formatting marks from text.
plain_words <- function(text) {
  text <- gsub("\\[([^][]*)\\]\\([^)]*\\)", "\\1", text)
  text <- gsub("\\[([^][]*)\\]\\{[^}]*\\}", "\\1", text)
  text <- gsub("[*`\u200b]|[\u25cf\u25d0\u25a0\u25cb\u25c7]\u00a0", "", text)
  gsub("\\\\([][\\\\_{}()#+!<>@$~^-])", "\\1", text)
}

# Cut long texts at a number of characters.
clipped <- function(text, length = 160) {
  ifelse(nchar(text) > length, paste0(substr(text, 1, length), " ..."), text)
}
