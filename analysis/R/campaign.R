# What the first page says of a campaign: what was measured, how often and how long, and with what.

read_origin <- function(path) {
  if (!file.exists(path)) {
    return(tibble::tibble(part = character(), what = character(), cells = numeric()))
  }
  read_measured(path, words = c("part", "what"))
}

# A digest of what each cell's runs gave.
read_digests <- function(path) {
  if (!file.exists(path)) {
    return(tibble::tibble(study = character(), cell = character(), digest = character()))
  }
  read_measured(path)
}

# One row per study and block: cells, runs per cell, length and warm-up, each from least to most.
campaign_overview <- function(cells) {
  cells |>
    dplyr::filter(!is.na(cell)) |>
    dplyr::mutate(
      study = factor(study, unique(study)), block = factor(block, unique(block))
    ) |>
    dplyr::group_by(study, block) |>
    dplyr::summarise(
      cells = dplyr::n(),
      runs = sum(n_replicates), least_runs = min(n_valid), most_runs = max(n_valid),
      least_s = min(duration_s), most_s = max(duration_s),
      least_warmup_s = min(warmup_s), most_warmup_s = max(warmup_s),
      .groups = "drop"
    ) |>
    dplyr::mutate(study = as.character(study), block = as.character(block))
}

# "3", or "3 to 5" where the two are not the same.
from_to <- function(least, most, digits = 4) {
  ifelse(
    least == most, short(least, digits), paste(short(least, digits), "to", short(most, digits))
  )
}

show_campaign <- function(overview) {
  overview |>
    dplyr::transmute(
      Study = study, Block = block, Cells = cells, `Valid runs per cell` = from_to(
        least_runs, most_runs
      ),
      `Length, s` = from_to(least_s, most_s), `Warm-up, s` = from_to(least_warmup_s, most_warmup_s)
    ) |>
    show_table(align = "llrrrr")
}

# Names of campaigns whose sentence says more than the name.
campaign_sorts <- c(
  quick = paste(
    "the *quick* campaign, which measures every study in a small form: short runs, and of some",
    "blocks only a part"
  ),
  full = "the *full* campaign"
)

# The first sentence of the report.
campaign_in_words <- function(name, overview) {
  sort <- if (name %in% names(campaign_sorts)) {
    campaign_sorts[[name]]
  } else if (name == "") {
    "a campaign of its own"
  } else {
    paste0("the campaign *", name, "*")
  }
  paste0(
    "This is ", sort, ": ", sum(overview$runs), " runs of ", sum(overview$cells),
    " cells in ", length(unique(overview$study)), " ",
    if (length(unique(overview$study)) == 1) "study" else "studies", ", of ",
    said(from_to(least(overview$least_s), most(overview$most_s))), " s each (@tbl-campaign)."
  )
}

show_origin <- function(origin) {
  origin |>
    dplyr::transmute(
      What = part, Found = escape_markdown(what), Cells = as.character(cells)
    ) |>
    show_table(align = "llr")
}

# The kernels that were measured on, without what was done to them.
kernels_of <- function(origin) sub(" with .*", "", origin$what[origin$part == "kernel"])

kernels_in_words <- function(origin) {
  kernels <- unique(kernels_of(origin))
  if (length(kernels) == 0) "pinned by the project" else enumerate(escape_markdown(kernels))
}

limits_of_kernels <- function(origin) {
  kernels <- unique(kernels_of(origin))
  if (length(kernels) > 1) {
    return(paste0(
      "Kernels of ", length(kernels), " versions were measured; where a chapter says nothing ",
      "else, the default one."
    ))
  }
  "Kernels of one version were measured; congestion control differs between versions."
}

# What the campaign's size leaves open.
limits_of_campaign <- function(overview) {
  few <- overview[overview$least_runs < least_runs, ]
  paste0(
    "A number of this campaign is of ",
    said(from_to(least(overview$least_runs), most(overview$most_runs))), " runs of ",
    said(from_to(least(overview$least_s), most(overview$most_s))),
    " s: what happens less often than once in as much time is not in it.",
    if (nrow(few) > 0) {
      paste0(
        " Blocks with fewer than ", least_runs, " valid runs in a cell, of which nothing can be ",
        "concluded: ", enumerate(paste0(few$study, "/", few$block)), "."
      )
    }
  )
}

# Every cell of the campaign, as the appendix lists them.
show_cells <- function(cells, replicates, digests) {
  first <- replicates |>
    dplyr::group_by(study, cell) |>
    dplyr::summarise(seed = seed[which.min(replicate)], .groups = "drop")
  cells |>
    dplyr::filter(!is.na(cell)) |>
    dplyr::left_join(first, by = c("study", "cell")) |>
    dplyr::left_join(digests, by = c("study", "cell")) |>
    dplyr::transmute(
      Study = study, Cell = breakable(cell),
      n = ifelse(n_valid == n_replicates, n_valid, paste0(n_valid, " of ", n_replicates)),
      Length = short(duration_s, 4), `Warm-up` = short(warmup_s, 4), Seed = as.character(seed),
      Digest = ifelse(is.na(digest), "", paste0("`", digest, "`"))
    ) |>
    show_table(align = "llrrrrl", widths = c(9, 52, 5, 6, 8, 10, 13))
}
