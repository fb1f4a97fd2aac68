# What every script of the workflow begins with.

# Send a script's words to its log. An error is one line there, of the file and what must hold.
begin_script <- function(snakemake) {
  one_locale()
  connection <- file(snakemake@log[[1]], open = "wt")
  sink(connection)
  sink(connection, type = "message")
  told <- told_file(snakemake)
  globalCallingHandlers(error = function(error) {
    message("losslab: error: ", told, ": ", one_line(conditionMessage(error)))
    quit(save = "no", status = 1)
  })
}

# The same order of words, and the same letters, whatever the machine's language is. In any locale
# but C, R and dplyr before 1.1 sort as ICU does, with "_" before "-" and "a" beside "A".
one_locale <- function() {
  suppressWarnings(Sys.setlocale("LC_ALL", "C.UTF-8"))
  invisible(Sys.setlocale("LC_COLLATE", "C"))
}

# The file whose code runs: a study's own, where the rule names one, else the rule's, of which
# Snakemake runs a copy.
told_file <- function(snakemake, arguments = commandArgs()) {
  code <- snakemake@input[["code"]]
  if (is.null(code)) {
    code <- sub("tmp[^.]*[.]", "", basename(grep("^--file=", arguments, value = TRUE)))
  }
  sub(".*/analysis/", "analysis/", code)
}

# Messages of tidyverse have a line for each function that they went through.
one_line <- function(text) {
  trimws(gsub("[[:space:]]+", " ", paste(text, collapse = " ")))
}
