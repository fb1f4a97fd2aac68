# Description of a campaign: cells, runs, duration and instrument.

read_origin <- function(path) {
  if (!file.exists(path)) {
    return(tibble::tibble(part = character(), what = character(), cells = numeric()))
  }
  read_measured(path, words = c("part", "what"))
}

# Read the digest of the results of each cell's runs.
read_digests <- function(path) {
  if (!file.exists(path)) {
    return(tibble::tibble(study = character(), cell = character(), digest = character()))
  }
  read_measured(path)
}

# Summarise each study and block: cells, measured ones, and the ranges of their runs, length and
# warm-up, which are NA if no cell is measured.
campaign_overview <- function(cells) {
  cells |>
    dplyr::filter(!is.na(cell)) |>
    dplyr::mutate(
      study = factor(study, unique(study)), block = factor(block, unique(block))
    ) |>
    dplyr::group_by(study, block) |>
    dplyr::summarise(
      cells = dplyr::n(), measured = sum(n_replicates > 0), runs = sum(n_replicates),
      dplyr::across(
        c(n_valid, duration_s, warmup_s),
        list(
          min = \(x) min_present(x[n_replicates > 0]), max = \(x) max_present(x[n_replicates > 0])
        )
      ),
      .groups = "drop"
    ) |>
    dplyr::rename(
      min_runs = n_valid_min, max_runs = n_valid_max, shortest_s = duration_s_min,
      longest_s = duration_s_max, min_warmup_s = warmup_s_min, max_warmup_s = warmup_s_max
    ) |>
    dplyr::mutate(study = as.character(study), block = as.character(block))
}

# Format a range: "3 to 5", or "3" if both ends are equal.
from_to <- function(low, high, digits = 4) {
  ifelse(low == high, short(low, digits), paste(short(low, digits), "to", short(high, digits)))
}

# Count the cells: "9 cells", or "7 of its 9 cells" if the others are not measured.
cells_text <- function(overview) {
  counts <- unique(c(sum(overview$measured), sum(overview$cells)))
  paste(paste(counts, collapse = " of its "), "cells")
}

show_campaign <- function(overview) {
  overview |>
    dplyr::transmute(
      Study = study, Block = block, Cells = cells, Measured = measured,
      `Valid runs per cell` = dplyr::coalesce(from_to(min_runs, max_runs), ""),
      `Length, s` = dplyr::coalesce(from_to(shortest_s, longest_s), ""),
      `Warm-up, s` = dplyr::coalesce(from_to(min_warmup_s, max_warmup_s), "")
    ) |>
    show_table(align = "llrrrrr")
}

# Descriptions of the campaigns that need more than their name.
campaign_sorts <- c(
  quick = paste(
    "the *quick* campaign, which measures a small form of every study, with short runs and only a",
    "part of some blocks"
  ),
  full = "the *full* campaign"
)

# Describe the campaign in one sentence.
campaign_text <- function(name, overview) {
  sort <- if (name %in% names(campaign_sorts)) {
    campaign_sorts[[name]]
  } else if (name == "") {
    "a custom campaign"
  } else {
    paste0("the campaign *", name, "*")
  }
  paste0(
    "This is ", sort, ": ", sum(overview$runs), " runs of ", cells_text(overview),
    " in ", length(unique(overview$study)), " ",
    if (length(unique(overview$study)) == 1) "study" else "studies", ", of ",
    as_text(from_to(min_present(overview$shortest_s), max_present(overview$longest_s))),
    " s each (@tbl-campaign)."
  )
}

show_origin <- function(origin) {
  origin |>
    dplyr::transmute(
      What = part, Found = escape_markdown(what), Cells = as.character(cells)
    ) |>
    show_table(align = "llr")
}

# List the kernels of the campaign, without their patches.
kernels_of <- function(origin) sub(" with .*", "", origin$what[origin$part == "kernel"])

kernels_text <- function(origin) {
  kernels <- unique(kernels_of(origin))
  if (length(kernels) == 0) "pinned by the project" else enumerate(escape_markdown(kernels))
}

kernel_limitations <- function(origin) {
  kernels <- unique(kernels_of(origin))
  if (length(kernels) > 1) {
    return(paste0(
      "The campaign uses ", length(kernels), " kernel versions. Unless a chapter says otherwise, ",
      "its results are from the default version."
    ))
  }
  "The campaign uses one kernel version; congestion control differs between versions."
}

# State the limits that follow from the campaign's size.
campaign_limitations <- function(overview) {
  few <- overview[which(overview$min_runs < min_runs), ]
  absent <- sum(overview$cells) - sum(overview$measured)
  paste0(
    if (absent > 0) paste0(absent, " of ", sum(overview$cells), " cells are not measured. "),
    "A measured cell of this campaign has ",
    as_text(from_to(min_present(overview$min_runs), max_present(overview$max_runs))), " runs of ",
    as_text(from_to(min_present(overview$shortest_s), max_present(overview$longest_s))),
    " s each. Rarer events may be missing.",
    if (nrow(few) > 0) {
      paste0(
        " Blocks with cells of fewer than ", min_runs, " valid runs, which support no ",
        "conclusion: ", enumerate(paste0(few$study, "/", few$block)), "."
      )
    }
  )
}

# Show every cell of the campaign as a table.
show_cells <- function(cells, replicates, digests) {
  first <- replicates |>
    dplyr::group_by(study, cell) |>
    dplyr::summarise(seed = seed[which.min(replicate)], .groups = "drop")
  rows <- cells |>
    dplyr::filter(!is.na(cell)) |>
    dplyr::left_join(first, by = c("study", "cell")) |>
    dplyr::left_join(digests, by = c("study", "cell")) |>
    dplyr::left_join(limits_of_cells(replicates), by = c("study", "cell"))
  rows |>
    dplyr::mutate(limiter = limiter_text(rows)) |>
    dplyr::transmute(
      Study = study, Cell = breakable(cell),
      n = ifelse(n_valid == n_replicates, n_valid, paste0(n_valid, " of ", n_replicates)),
      Length = short(duration_s, 4), `Warm-up` = short(warmup_s, 4),
      `Limited by` = limiter, Seed = as.character(seed),
      Digest = ifelse(is.na(digest), "", paste0("`", digest, "`"))
    ) |>
    show_table(align = "llrrrlrl")
}
