# The cells of a campaign: which have a valid result, which have none, and why.

# Read the table of cells: one row per cell, with its numbers of replicates and valid replicates. If
# a campaign omits cells of a block, the block has a row without a cell, with their number.
read_cells <- function(path) read_measured(path)

# List the cells without a valid replicate, and the reason.
missing_cells <- function(cells) {
  missing <- cells[which(!is.na(cells$cell) & cells$n_valid == 0), ]
  missing$why <- ifelse(
    is.na(missing$reasons), "not measured",
    paste0(ifelse(missing$n_replicates == 0, "not measured: ", "invalid: "), missing$reasons)
  )
  missing
}

# Describe, by block, the cells that the campaign omits.
unmeasured_blocks <- function(cells) {
  rows <- cells[is.na(cells$cell), ]
  if (nrow(rows) == 0) {
    return(character())
  }
  measured <- vapply(rows$block, function(block) {
    sum(cells$block == block & !is.na(cells$cell))
  }, 0)
  left_out <- paste0(rows$n_left_out, " of its ", measured + rows$n_left_out, " cells are")
  stats::setNames(
    paste0(
      "Block `", rows$block, "`", ifelse(measured == 0, " is", paste0(": ", left_out)),
      " not part of this campaign."
    ),
    rows$block
  )
}

# Join words: "a, b and c", or "a, b and 7 more" if there are more than `max_words`.
enumerate <- function(words, max_words = 6) {
  n <- length(words)
  if (n > max_words) {
    words <- c(utils::head(words, max_words - 1), paste(n - max_words + 1, "more"))
  }
  if (length(words) < 2) {
    return(paste(words, collapse = ""))
  }
  paste(paste(utils::head(words, -1), collapse = ", "), "and", utils::tail(words, 1))
}

# Write the note of a figure with missing cells, or "" if none is missing. It has blocks, whose
# names fit below a figure; the appendix lists the cells.
missing_note <- function(missing) {
  if (nrow(missing) == 0) {
    return("")
  }
  counts <- table(missing$block)
  blocks <- paste0(names(counts), " (", counts, ")")
  paste("Missing cells, without a valid replicate, by block:", enumerate(blocks, 4))
}

# List a study's cells without a valid replicate, by block, with the reason, and the blocks that the
# campaign omits. The cells of a block without any valid replicate have no names.
missing_cells_lines <- function(cells) {
  missing <- missing_cells(cells)
  lines <- c(
    vapply(split(missing, factor(missing$block, unique(missing$block))), function(block) {
      all <- sum(cells$block == block$block[1] & !is.na(cells$cell))
      whole <- nrow(block) == all
      names <- if (whole && all > 1) "" else paste0(": ", enumerate(paste0("`", block$cell, "`")))
      paste0(
        "Block `", block$block[1], "`: no valid replicate in ",
        if (whole) "" else paste(nrow(block), "of "), all, if (all == 1) " cell" else " cells",
        names, ". ", reasons_text(block$why)
      )
    }, ""),
    unmeasured_blocks(cells)
  )
  if (length(lines) == 0) character() else paste0(cells$study[1], ": ", lines)
}

# Join the distinct reasons, escaped for Markdown.
reasons_text <- function(why) {
  paste0(escape_markdown(enumerate(unique(why), 3)), ".")
}

# Escape Markdown characters. kable() escapes bars, which would split columns.
escape_markdown <- function(text) gsub("([][\\\\`*_{}()#+!<>@$~^])", "\\\\\\1", text)

# Let a table break the name of a cell at its underscores.
breakable <- function(cell) gsub("_", "_\u200b", escape_markdown(cell), fixed = TRUE)

# Write the notice on cells that were not measured with the pinned kernel and images, or "" if there
# are none. It is plain text for the document's header.
unpinned_notice <- function(paths = Sys.glob("summary/*/cells.csv")) {
  cells <- dplyr::bind_rows(lapply(paths, read_cells)) |>
    dplyr::filter(!is.na(cell))
  unpinned <- cells$unpinned[!is.na(cells$unpinned)]
  if (length(unpinned) == 0) {
    return("")
  }
  parts <- sort(unique(unlist(strsplit(unpinned, " "))))
  paste0(
    length(unpinned), " of ", nrow(cells), " cells were measured with parts of the instrument ",
    "that differ from the lock files: ", enumerate(parts), ". With other parts, the same seed ",
    "may give other bytes, and the numbers may differ from those of the pinned instrument."
  )
}

# Write the end of the report's subtitle: whether hosts were containers, and in how many cells.
subtitle_of_hosts <- function(paths = Sys.glob("summary/*/cells.csv")) {
  cells <- dplyr::bind_rows(lapply(paths, read_cells)) |>
    dplyr::filter(!is.na(hosts))
  containers <- sum(cells$hosts == "containers")
  if (containers == 0) {
    return("")
  }
  which <- if (containers < nrow(cells)) {
    paste0(" (", containers, " of ", nrow(cells), " cells)")
  } else {
    ""
  }
  paste0(", in Docker containers wired by Containernet", which)
}
