# Start of every script of the workflow.

# The file that an error message names: the rule's script, of which Snakemake runs a copy, or the
# study's file that this script runs.
script <- new.env()

# Send a script's output to its log. An error is one line with the file and the message.
begin_script <- function(snakemake) {
  one_locale()
  # A script calls most functions a few times, so compiling them takes longer than it saves.
  compiler::enableJIT(0)
  connection <- file(snakemake@log[[1]], open = "wt")
  sink(connection)
  sink(connection, type = "message")
  copy <- basename(grep("^--file=", commandArgs(), value = TRUE))
  script$file <- sub("tmp[^.]*[.]", "analysis/", copy)
  globalCallingHandlers(error = function(error) {
    message("losslab: error: ", script$file, ": ", one_line(conditionMessage(error)))
    quit(save = "no", status = 1)
  })
}

# Set one locale, so that sorting and encoding do not depend on the machine. In locales other than
# C, R and dplyr before 1.1 sort like ICU, with "_" before "-" and "a" next to "A".
one_locale <- function() {
  suppressWarnings(Sys.setlocale("LC_ALL", "C.UTF-8"))
  invisible(Sys.setlocale("LC_COLLATE", "C"))
}

# Return a reader of files that reads equal files once: the report reads some a hundred times.
remember <- function(read) {
  known <- new.env()
  function(path, ...) {
    key <- paste(c(tools::md5sum(path), ...), collapse = " ")
    if (is.null(known[[key]])) known[[key]] <- read(path, ...)
    known[[key]]
  }
}

analysis_path <- function(path) sub(".*/(analysis|studies)/", "\\1/", path)

# Join a message's lines: tidyverse messages have a line for each calling function.
one_line <- function(text) {
  trimws(gsub("[[:space:]]+", " ", paste(text, collapse = " ")))
}
