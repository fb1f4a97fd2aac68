# Answers of `losslab explain` to the studies' reports, which `python -m bench.explained` records.

# Return the row of a report, by its path in the repository.
explained_row <- function(report, path = "explained.csv") {
  rows <- utils::read.csv(path)
  columns <- c("report", "digest", "settings", "pairs", "runs", "verdict", "headline")
  if (!identical(names(rows), columns)) {
    stop(path, " must have the columns ", paste(columns, collapse = ", "))
  }
  row <- rows[rows$report == report, ]
  if (nrow(row) != 1) {
    stop("one row of ", path, " must be of ", report, ", found ", nrow(row))
  }
  row
}

# Return the verdict, one of `losslab.tools.explain.verdict.Verdict`.
explained_verdict <- function(...) explained_row(...)$verdict

# Say how much was tried for a report, and what the answer is.
explained_text <- function(report, ...) {
  row <- explained_row(report, ...)
  tried <- paste(row$settings, "settings")
  if (row$pairs > 0) {
    tried <- paste(tried, "and", row$pairs, if (row$pairs == 1) "pair" else "pairs")
  }
  paste0(
    "`losslab explain ", report, "` tries ", tried, ", and answers: \u201c",
    escape_markdown(row$headline), "\u201d"
  )
}
