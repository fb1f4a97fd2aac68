# Figures, tables and chapters without data: the report does not print them, and lists them once.

# Labels and captions of the figures and tables without data, in the document's order.
not_printed <- new.env()
not_printed$labels <- character()

# Line in place of an exhibit without data.
no_exhibit <- "<!-- no data -->"

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
      if (!document_part$omitted) {
        not_printed$labels[[options$label]] <- sub("[:.,;].*", "", paste(caption, collapse = " "))
      }
      no_exhibit
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

# Remove the third-level sections whose figures and tables all have no data, and the bold words of
# paragraphs whose sentences all have no numbers.
without_empty_sections <- function(lines) {
  lines <- unlist(strsplit(paste(lines, collapse = "\n"), "\n", fixed = TRUE))
  level <- nchar(sub("^(#{1,3}) .*", "\\1", lines)) * grepl("^#{1,3} ", lines)
  section <- cumsum(level > 0)
  has <- function(of, what) any(grepl(what, lines[section == of], perl = TRUE))
  empty <- Filter(
    \(of) has(of, paste0("^", no_exhibit, "$")) && !has(of, "[{]#(fig|tbl)-"),
    section[level == 3]
  )
  alone <- grepl("^[*]{2}[^*]+[.][*]{2} *$", lines) & c(lines[-1], "") == ""
  lines[!section %in% empty & !alone & lines != no_exhibit]
}

# Remove references to figures, tables and sections of the report that a document does not have, and
# sentences that begin with one. References to anything else remain, and are an error.
without_dangling <- function(document, labels = report$labels) {
  text <- paste(document, collapse = "\n")
  defined <- "(?<=\\{#)(?:fig|tbl|sec)-[A-Za-z0-9-]+"
  present <- regmatches(text, gregexpr(defined, text, perl = TRUE))[[1]]
  for (label in setdiff(labels, present)) {
    one <- paste0("@", label, "(?![A-Za-z0-9-])")
    sentence <- paste0("(?:^|(?<=[.]\\s)|(?<=\n\n))", one, "(?:[^.]|[.](?!\\s|$))*[.](?:\\s|$)")
    text <- gsub(sentence, "", text, perl = TRUE)
    text <- gsub(paste0("\\s*\\((see )?", one, "\\)"), "", text, perl = TRUE)
    text <- gsub(paste0("\\((see )?", one, "[,;]\\s+"), "(", text, perl = TRUE)
    text <- gsub(paste0("[,;]\\s+", one), "", text, perl = TRUE)
    text <- gsub(one, "a part that this campaign has no data for", text, perl = TRUE)
  }
  text
}

# List what the campaign did not run: studies without any valid run, cells and blocks, exhibits
# without data, and sentences without numbers.
not_run_text <- function(paths, sentences = unmeasured$sentences) {
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
