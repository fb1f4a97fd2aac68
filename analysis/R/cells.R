# The cells of a campaign and what became of them: which have a number, which have none, and why.

# One row per cell, with how many replicates it has and how many of them count. A block of which the
# campaign leaves cells out has a row without a cell, which says how many.
read_cells <- function(path) read_measured(path)

# The cells without any valid replicate, and why.
missing_cells <- function(cells) {
  cells |>
    dplyr::filter(!is.na(cell), n_valid == 0) |>
    dplyr::mutate(
      why = ifelse(
        is.na(reasons), "not measured",
        paste0(ifelse(n_replicates == 0, "not measured: ", "invalid: "), reasons)
      )
    )
}

# The blocks of the study of which the campaign leaves cells out: a sentence on each, by its name.
left_out_blocks <- function(cells) {
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

# "a, b and c", or "a, b and 7 more" where there are more than `most`.
enumerate <- function(words, most = 6) {
  if (length(words) > most) {
    words <- c(utils::head(words, most - 1), paste(length(words) - most + 1, "more"))
  }
  if (length(words) < 2) {
    return(paste(words, collapse = ""))
  }
  paste(paste(utils::head(words, -1), collapse = ", "), "and", utils::tail(words, 1))
}

# A sentence for a figure that is drawn without some of its cells; empty where it has them all.
missing_note <- function(missing) {
  if (nrow(missing) == 0) {
    return("")
  }
  paste("Missing, for want of a valid replicate:", enumerate(missing$cell, 4))
}

# What a chapter must say before it shows anything: its cells without a number, block by block, with
# the reason, and the blocks that the campaign leaves out. Empty where nothing is missing.
what_is_missing <- function(cells) {
  missing <- missing_cells(cells)
  lines <- c(
    vapply(split(missing, factor(missing$block, unique(missing$block))), function(block) {
      all <- sum(cells$block == block$block[1] & !is.na(cells$cell))
      names <- paste0("`", block$cell, "`")
      which <- if (nrow(block) == all) "all" else paste(nrow(block), "of", all)
      paste0(
        "- Block `", block$block[1], "`: no valid replicate in ", which, " cells: ",
        enumerate(names), ". ", reasons_text(block$why)
      )
    }, ""),
    sprintf("- %s", left_out_blocks(cells))
  )
  if (length(lines) == 0) {
    return("")
  }
  paste(c("**What is missing here.** What follows is without it.", "", lines), collapse = "\n")
}

# The different reasons, safe to stand in Markdown.
reasons_text <- function(why) {
  paste0(escape_markdown(enumerate(unique(why), 3)), ".")
}

# A bar needs none: kable() sees to those that would part columns.
escape_markdown <- function(text) gsub("([][\\\\`*_{}()#+!<>@$~^])", "\\\\\\1", text)

# A cell's name that a table's column may break.
breakable <- function(cell) gsub("_", "_\u200b", escape_markdown(cell), fixed = TRUE)

# What the first page says when some of the studies' cells were measured with something else than
# the pinned kernel and images; empty when none was. Plain words: they are for the header.
unpinned_notice <- function(paths = Sys.glob("*_cells.csv")) {
  cells <- dplyr::bind_rows(lapply(paths, read_cells)) |>
    dplyr::filter(!is.na(cell))
  unpinned <- cells$unpinned[!is.na(cells$unpinned)]
  if (length(unpinned) == 0) {
    return("")
  }
  parts <- sort(unique(unlist(strsplit(unpinned, " "))))
  paste0(
    length(unpinned), " of ", nrow(cells), " cells were measured with parts of the instrument ",
    "that are not those of the lock files: ", enumerate(parts), ". With other parts the same seed ",
    "need not give the same bytes, and these numbers may differ from the pinned instrument's."
  )
}

# What the report's subtitle says of the hosts, after "in virtual time": that they were containers,
# and of how many of the cells where not of all.
subtitle_of_hosts <- function(paths = Sys.glob("*_cells.csv")) {
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
