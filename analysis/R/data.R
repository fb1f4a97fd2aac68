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

# Tables with many rows per replicate, without the axes of its cell.
sampled_tables <- c("intervals", "flows", "queue")

# Return a study's tables by name; each is read on first use. The sampled tables get the axes.
#
# `input` has the paths of the tables that the code may use.
study_data <- function(input) {
  data <- new.env(parent = emptyenv())
  Map(
    function(name, read) {
      delayedAssign(name,
        {
          rows <- read(table_path(input, name))
          if (name %in% sampled_tables) with_axes(rows, data$cells) else rows
        },
        assign.env = data
      )
    },
    names(table_readers()), table_readers()
  )
  data
}

# Add the axes of each row's cell, unless the rows have them.
with_axes <- function(rows, cells) {
  names <- c("study", "block", "cell")
  added <- setdiff(cell_columns, colnames(rows))
  if (length(added) == 0) {
    return(rows)
  }
  dplyr::left_join(rows, cells[c(names, added)], by = names)
}

table_path <- function(input, name) {
  path <- unlist(input[[name]])
  if (length(path) != 1) {
    stop("the study must have one table ", name, ", found ", length(path), " files")
  }
  path
}
