# Start of every script of the workflow.

# Send a script's output to its log. An error is one line with the file and the message.
begin_script <- function(snakemake) {
  one_locale()
  # A script calls most functions a few times, so compiling them takes longer than it saves.
  compiler::enableJIT(0)
  connection <- file(snakemake@log[[1]], open = "wt")
  sink(connection)
  sink(connection, type = "message")
  place <- message_file(snakemake)
  globalCallingHandlers(error = function(error) {
    message("losslab: error: ", place, ": ", one_line(conditionMessage(error)))
    quit(save = "no", status = 1)
  })
}

# Set one locale, so that sorting and encoding do not depend on the machine. In locales other than
# C, R and dplyr before 1.1 sort like ICU, with "_" before "-" and "a" next to "A".
one_locale <- function() {
  suppressWarnings(Sys.setlocale("LC_ALL", "C.UTF-8"))
  invisible(Sys.setlocale("LC_COLLATE", "C"))
}

# Find the file to name in an error message: the study's, if the rule names one, else the rule's
# script, of which Snakemake runs a copy.
message_file <- function(snakemake, arguments = commandArgs()) {
  code <- snakemake@input[["code"]]
  if (is.null(code)) {
    code <- sub("tmp[^.]*[.]", "", basename(grep("^--file=", arguments, value = TRUE)))
  }
  sub(".*/analysis/", "analysis/", code)
}

# Join a message's lines: tidyverse messages have a line for each calling function.
one_line <- function(text) {
  trimws(gsub("[[:space:]]+", " ", paste(text, collapse = " ")))
}
