# Figures, tables and chapters without data: the report does not print them, and lists them once.

# Labels and captions of the figures and tables without data, in the document's order.
not_printed <- new.env()
not_printed$labels <- character()

# Do not print chunks without data.
hide_empty_exhibits <- function() {
  shown <- knitr::knit_hooks$get("chunk")
  knitr::knit_hooks$set(
    chunk = function(x, options) {
      if (!has_no_data(x, options)) {
        return(shown(x, options))
      }
      caption <- options[["fig.cap"]]
      if (is.null(caption)) caption <- options[["tbl-cap"]]
      if (is.null(caption)) caption <- options[["tbl.cap"]]
      not_printed$labels[[options$label]] <- sub("[:.,;].*", "", paste(caption, collapse = " "))
      ""
    }
  )
}

# Tell whether a chunk shows a table without rows, or a figure without data.
has_no_data <- function(x, options) {
  if (!grepl("^(fig|tbl)-", options$label)) {
    return(FALSE)
  }
  picture <- picture_in(options$code)
  any(grepl(no_rows, x, fixed = TRUE)) ||
    any(file.exists(picture)) && any(grepl(nothing_to_draw, readLines(picture), fixed = TRUE))
}

# Remove references to figures, tables and sections of the report that a document does not have.
# References to anything else remain, and are an error.
without_dangling <- function(document, labels = readLines("labels.txt")) {
  text <- paste(document, collapse = "\n")
  defined <- "(?<=\\{#)(?:fig|tbl|sec)-[A-Za-z0-9-]+"
  present <- regmatches(text, gregexpr(defined, text, perl = TRUE))[[1]]
  for (label in setdiff(labels, present)) {
    one <- paste0("@", label, "(?![A-Za-z0-9-])")
    text <- gsub(paste0("\\s*\\((see )?", one, "\\)"), "", text, perl = TRUE)
    text <- gsub(paste0("\\((see )?", one, "[,;]\\s+"), "(", text, perl = TRUE)
    text <- gsub(paste0("[,;]\\s+", one), "", text, perl = TRUE)
    text <- gsub(one, "a part that this campaign has no data for", text, perl = TRUE)
  }
  text
}

# List what the campaign did not run: studies without any valid run, cells and blocks, exhibits
# without data, and sentences without numbers (written to a file, too, for the build's log).
not_run_text <- function(paths, sentences = unmeasured$sentences, log = "unmeasured.txt") {
  writeLines(sentences, log)
  of_cells <- unlist(lapply(paths, function(path) missing_cells_lines(read_cells(path))))
  exhibits <- not_printed$labels
  parts <- list(
    "**Cells without a valid run:**" = of_cells,
    "**Figures and tables without data**, which are not printed:" =
      if (length(exhibits) > 0) paste0(names(exhibits), ": ", escape_markdown(exhibits)),
    "**Sentences without numbers**, which are not printed:" = escape_markdown(sentences)
  )
  parts <- Filter(\(lines) length(lines) > 0, parts)
  if (length(parts) == 0) {
    return("This campaign ran every cell of its studies.")
  }
  blocks <- Map(\(title, lines) c(title, "", paste("-", lines), ""), names(parts), parts)
  paste(unlist(blocks), collapse = "\n")
}
