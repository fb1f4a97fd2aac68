# Tables of a study, for its figures and tables.

# Readers of the tables that a rule names.
table_readers <- function() {
  list(
    algorithms = read_algorithms, published = read_published, curves = read_measured,
    cells = read_cells, summary = read_measured, ratios = read_measured,
    replicates = read_replicates, intervals = read_measured, flows = read_measured,
    queue = read_measured, criteria = read_criteria
  )
}

# Read the verdicts on a suite's cases, by algorithm, which `losslab collect` writes.
read_criteria <- function(path) {
  read_measured(path, words = c(
    "criterion", "title", "limit", "cells", "against", "limit_because", "scenario"
  ))
}

# Return a study's tables by name; each is read on first use.
#
# `input` has the paths of the tables that the code may use.
study_data <- function(input) {
  data <- new.env(parent = emptyenv())
  Map(
    function(name, read) {
      delayedAssign(name, read(table_path(input, name)), assign.env = data)
    },
    names(table_readers()), table_readers()
  )
  data
}

table_path <- function(input, name) {
  path <- unlist(input[[name]])
  if (length(path) != 1) {
    stop("the study must have one table ", name, ", found ", length(path), " files")
  }
  path
}
