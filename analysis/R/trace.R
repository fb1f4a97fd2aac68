# Line below each figure and table of a chapter: data, code, cells, the command that repeats one of
# them, and its link to the explorer. A table's chunk names its data,
# `#| data: loss_ratio, loss_summary`. Its cells are those whose condition matches a row of the
# first table in their common columns. If the rows do not identify the cells, the chunk names them:
# `#| cells: block=main long, app=iperf3`.

# Append the line to the output of every chunk, for both renderers.
trace_chunks <- function() {
  shown <- knitr::knit_hooks$get("chunk")
  knitr::knit_hooks$set(chunk = function(x, options) paste0(shown(x, options), trace_of(options)))
}

trace_of <- function(options) {
  picture <- picture_in(options$code)
  # A picture without a study has no study prefix.
  parts <- if (grepl("^fig-", options$label) && any(grepl("_", picture))) {
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
  study <- study_of_name(name)
  rows <- text_rows(paste0(name, ".cells.csv"))
  # Figures without a study have their data in tables.
  suffixes <- c(if (!is.null(rows)) "csv", "svg", "pdf", "png")
  links <- sprintf("[%s](../figures/%s.%s)", toupper(suffixes), name, suffixes)
  c(
    paste0("data: ", paste(links, collapse = ", ")),
    script_link(study, paste0("figures/", sub(paste0("^", study, "_"), "", name))),
    cells_again(study, rows$cell)
  )
}

trace_of_table <- function(label, data, cells) {
  study <- study_of_name(data[[1]])
  # The data are in summary/ or in tables/.
  place <- ifelse(grepl("_(cells|intervals|flows|queue|ratios)$", data), "../summary", "../tables")
  c(
    paste0(
      "data: ", paste0("[", data, ".csv](", place, "/", data, ".csv)", collapse = ", "),
      ", [LaTeX](tables/", label, ".tex)"
    ),
    script_link(study, "tables"),
    cells_again(study, cells_of_table(study, data[[1]], cells))
  )
}

# Find the study of a figure or table by its table of cells; `agreement` has none.
study_of_name <- function(name) {
  studies <- sub("_cells[.]csv$", "", Sys.glob("*_cells.csv"))
  studies <- studies[startsWith(name, paste0(studies, "_"))]
  if (length(studies) == 0) sub("_.*", "", name) else studies[which.max(nchar(studies))]
}

# Link the report's copy of a script. Chapters without a study have the same script.
script_link <- function(study, script) {
  of_study <- file.exists(paste0(study, "_cells.csv"))
  path <- if (of_study) paste0(study, "/", script, ".R") else "compare.R"
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
  cells <- text_rows(paste0(study, "_cells.csv"))
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
  runs <- text_rows(paste0(study, "_replicates.csv"))
  runs <- runs[runs$valid == "TRUE", ]
  cells <- text_rows(paste0(study, "_cells.csv"))
  cells <- cells[cells$cell %in% names & cells$cell %in% runs$cell, ]
  if (NROW(cells) == 0) {
    return(character())
  }
  count <- unique(range(as.integer(cells$n_valid)))
  first <- match(cells$cell, runs$cell)
  addresses <- paste(study, cells$cell, runs$replicate[first], sep = "/")
  c(
    paste0(
      "[", nrow(cells), if (nrow(cells) == 1) " cell" else " cells", "](explorer.html#study=",
      study, "), n = ", paste(count, collapse = " to ")
    ),
    paste0(
      "repeat: `losslab rerun results/cells/", addresses[1], "`",
      "[ \u00b7 [open in the explorer](explorer.html#a=", addresses[1], ")]{.web}"
    )
  )
}
