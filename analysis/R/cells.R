# The cells of a campaign and what became of them: which have a number, which have none, and why.

# One row per cell, with how many replicates it has and how many of them count. A block that the
# campaign leaves out is a row without a cell.
read_cells <- function(path) read_measured(path)

# The cells without any valid replicate, of those that the conditions in `...` select, and why.
missing_cells <- function(cells, ...) {
  cells |>
    dplyr::filter(!is.na(cell), n_valid == 0) |>
    dplyr::filter(...) |>
    dplyr::mutate(
      why = ifelse(n_replicates == 0 | is.na(reasons), "not measured", paste("invalid:", reasons))
    )
}

# The blocks of the study that the campaign leaves out.
left_out_blocks <- function(cells) cells$block[is.na(cells$cell)]

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
  paste0(
    "Without ", nrow(missing), if (nrow(missing) == 1) " cell" else " cells",
    " that have no valid replicate: ", enumerate(missing$cell, 4)
  )
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
        "- Block `", block$block[1], "`: ", which, " cells have no valid replicate: ",
        enumerate(names), ". ", reasons_text(block$why)
      )
    }, ""),
    vapply(left_out_blocks(cells), function(block) {
      paste0("- Block `", block, "` is not part of this campaign.")
    }, "")
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

escape_markdown <- function(text) gsub("([][\\\\`*_{}()#+!|<>@$~^])", "\\\\\\1", text)
