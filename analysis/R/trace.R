# Line below each figure and table of a chapter: data, code, cells, the command that repeats one of
# them, and its link to the explorer. A table's chunk names its data,
# `#| data: tables/loss/ratio, tables/loss/summary`. Its cells are those whose condition matches a
# row of the first table in their common columns. If the rows do not identify the cells, the chunk
# names them: `#| cells: block=main long, app=iperf3`.

# Append the line to the output of every chunk, for both renderers.
trace_chunks <- function() {
  shown <- knitr::knit_hooks$get("chunk")
  knitr::knit_hooks$set(chunk = function(x, options) paste0(shown(x, options), trace_of(options)))
}

trace_of <- function(options) {
  picture <- picture_in(options$code)
  parts <- if (grepl("^fig-", options$label) && any(startsWith(picture, "figures/"))) {
    trace_of_figure(sub("[.]svg$", "", picture))
  } else if (grepl("^tbl-", options$label) && !is.null(options$data)) {
    trace_of_table(options$label, strsplit(options$data, ", *")[[1]], options$cells)
  }
  if (is.null(parts)) {
    return("")
  }
  paste0("\n\n[", paste(parts, collapse = " \u00b7 "), "]{.trace}\n")
}

trace_of_figure <- function(name) {
  study <- study_of_file(name)
  rows <- text_rows(paste0(name, ".cells.csv"))
  # Figures without a study have their data in tables.
  suffixes <- c(if (!is.null(rows)) "csv", "svg", "pdf", "png")
  links <- sprintf("[%s](../%s.%s)", toupper(suffixes), name, suffixes)
  c(
    paste0("data: ", paste(links, collapse = ", ")),
    script_link(study, paste0("figures/", basename(name))),
    cells_again(study, rows$cell)
  )
}

trace_of_table <- function(label, data, cells) {
  study <- study_of_file(data[[1]])
  c(
    paste0(
      "data: ", paste0("[", basename(data), ".csv](../", data, ".csv)", collapse = ", "),
      ", [LaTeX](tables/", label, ".tex)"
    ),
    script_link(study, "tables"),
    cells_again(study, cells_of_table(study, data[[1]], cells))
  )
}

# Get the study of a file `figures/STUDY/NAME`, or "" of a file `figures/NAME`.
study_of_file <- function(path) {
  parts <- strsplit(path, "/")[[1]]
  if (length(parts) == 3) parts[2] else ""
}

# Get the path of a study's table in results/summary, which the report has under the same path.
summary_path <- function(study, table) paste0("summary/", study, "/", table, ".csv")

# Link the report's copy of a script. Figures and tables without a study have the same script.
script_link <- function(study, script) {
  path <- if (study != "") paste0(study, "/", script, ".R") else "compare.R"
  paste0("code: [", path, "](scripts/", path, ")")
}

# Read a table's rows as text, with numbers normalised: 0.0 is 0.
text_rows <- remember(function(path) {
  if (!file.exists(path)) {
    return(NULL)
  }
  rows <- utils::read.csv(path, colClasses = "character", na.strings = NULL, check.names = FALSE)
  rows[] <- lapply(rows, function(text) {
    number <- suppressWarnings(as.numeric(text))
    ifelse(is.na(number), text, as.character(number))
  })
  rows
})

cells_of_table <- function(study, name, values = NULL) {
  rows <- text_rows(paste0(name, ".csv"))
  cells <- text_rows(summary_path(study, "cells"))
  cells <- cells[cells$cell != "", ]
  if (NROW(rows) == 0 || NROW(cells) == 0) {
    return(character())
  }
  shared <- intersect(names(rows), names(cells))
  overlaps <- function(column) any(rows[[column]] %in% cells[[column]])
  shared <- shared[vapply(shared, overlaps, logical(1))]
  # Join the columns to one text; without common columns, all rows match.
  joined <- function(table) do.call(paste, c(list(rep("", nrow(table))), unname(table[shared])))
  agrees <- joined(cells) %in% joined(rows)
  for (assignment in strsplit(paste(values, collapse = ""), ", *")[[1]]) {
    sides <- strsplit(assignment, "=")[[1]]
    agrees <- agrees & cells[[sides[[1]]]] %in% strsplit(sides[[2]], " ")[[1]]
  }
  cells$cell[agrees]
}

# Count the cells with a valid run, link them in the explorer, and write the command that reruns one
# of them.
cells_again <- function(study, names) {
  runs <- text_rows(summary_path(study, "replicates"))
  runs <- runs[runs$valid == "TRUE", ]
  cells <- text_rows(summary_path(study, "cells"))
  cells <- cells[cells$cell %in% names & cells$cell %in% runs$cell, ]
  if (NROW(cells) == 0) {
    return(character())
  }
  count <- unique(range(as.integer(cells$n_valid)))
  first <- match(cells$cell, runs$cell)
  addresses <- paste(study, cells$cell, runs$replicate[first], sep = "/")
  # The command is longer than a line of the PDF.
  paste0(
    "[", nrow(cells), if (nrow(cells) == 1) " cell" else " cells", "](explorer.html#study=",
    study, "), n = ", paste(count, collapse = " to "),
    "[ \u00b7 repeat: `losslab rerun results/cells/", addresses[1], "` \u00b7 ",
    "[open in the explorer](explorer.html#a=", addresses[1], ")]{.web}"
  )
}
