# Verdicts on the test cases of drafts, as `losslab conform` writes them
# (workflow/schemas/conformed.schema.yaml).

conformed_words <- c("suite", "algorithm", "kernel", "case", "title", "why", "command")

# Read records: a row for each case of each algorithm, with the reason and the command of the first
# run that has its verdict. A record without cases has one row, with the reason.
read_conformed <- function(paths) {
  rows <- lapply(paths, function(path) {
    record <- jsonlite::read_json(path)
    subject <- record[c("suite", "algorithm", "kernel")]
    if (!is.null(record$absent)) {
      return(c(subject, verdict = "not measured", why = record$absent))
    }
    dplyr::bind_rows(lapply(record$cases, function(case) {
      agreeing <- Filter(\(run) run$verdict == case$verdict, case$seeds)
      c(
        subject, case[c("case", "title", "verdict")],
        n = length(case$seeds), agreeing = length(agreeing), agreeing[[1]][c("why", "command")]
      )
    }))
  })
  columns <- c(conformed_words, "verdict", "n", "agreeing")
  with_columns(dplyr::bind_rows(rows), columns)[columns]
}

# Marks of the verdicts, whose colours are those of the verdicts on claims.
conform_marks <- c(
  PASS = "reproduced", FAIL = "not reproduced", INCONCLUSIVE = "inconclusive",
  "NOT OBSERVABLE" = "not comparable"
)

# Cases and their verdicts, with a column for each algorithm: in brackets, how many of the runs have
# the verdict, if not all.
verdicts_side_by_side <- function(rows, labels) {
  mark <- conform_marks[rows$verdict]
  share <- ifelse(rows$agreeing < rows$n, paste0(" (", rows$agreeing, " of ", rows$n, ")"), "")
  text <- paste0(
    "[", verdict_signs[mark], "\u00a0", tolower(rows$verdict), "]{.verdict .verdict-",
    gsub(" ", "-", mark), "}", share
  )
  rows |>
    dplyr::transmute(Case = case, Title = title, algorithm = labels[algorithm], text = text) |>
    tidyr::pivot_wider(names_from = "algorithm", values_from = "text", values_fill = "")
}

# The numbers that decide a case, without the words on the step and on its limit.
deciding_numbers <- function(why) {
  gsub(" \\(ours: [^)]*\\)|(^|(?<=; ))step \\d+: ", "", why, perl = TRUE)
}
