# Reading the workflow's tables, with the types that every later step relies on.

# Mean, spread and quartiles that the source prints, in its order.
statistics <- c("mean", "std", "min", "q25", "median", "q75", "max")

cell_columns <- c("study", "block", "cell", condition_columns)

# What is not a metric in the table of replicates.
fixed_columns <- c(
  cell_columns, "replicate", "seed", "valid", "reasons", "attempt", "earlier_reasons"
)

# Columns of words; all others are numbers, also where a table has no row to tell it by.
word_columns <- c(
  "study", "block", "cell", condition_words, "flow", "reasons", "earlier_reasons", "unpinned",
  "hosts", "place", "digest",
  "metric", "statistic_over", "whose", "setup", "load", "runs_download", "label", "winner", "sign",
  "effect", "kind", "rule", "choose", "feature", "claim", "sentence", "tolerance", "verdict",
  "absent", "unit", "limit_is", "limit_because", "reason", "unsupported", "source", "exercise",
  "part", "item", "section", "from", "reading"
)

# Read a table with the types that its columns' names stand for.
read_measured <- function(path, words = character()) {
  names <- names(readr::read_csv(path, n_max = 0, show_col_types = FALSE))
  types <- lapply(stats::setNames(names, names), function(name) {
    if (name == "valid") {
      readr::col_logical()
    } else if (name == "seed") {
      readr::col_integer()
    } else if (name %in% c(word_columns, words)) {
      readr::col_character()
    } else {
      readr::col_double()
    }
  })
  readr::read_csv(path, col_types = do.call(readr::cols, types))
}

# A table of a study that this campaign may be without; then it has no row of any condition.
read_study_table <- function(path) {
  if (file.exists(path)) {
    return(read_measured(path))
  }
  none <- rep(list(logical()), length(condition_columns))
  tibble::as_tibble(stats::setNames(none, condition_columns))
}

# Significant digits of every number that is written. A goodput of 30 s at 1 Gbit/s counts packets,
# one part in two million: six digits carry all that was measured, two more are for arithmetic by
# the reader. Doubles are uncertain from the fifteenth on, and that is where two versions of R, of
# its packages or of the C library differ.
written_digits <- 8

# The only way in which a table gets into a file: the same bytes for the same rows.
write_table <- function(data, path) {
  data |>
    dplyr::ungroup() |>
    dplyr::mutate(dplyr::across(tidyselect::where(is.double), written_number)) |>
    readr::write_csv(path)
}

# Printed by the C library, which rounds right; integers as they are.
written_number <- function(x) {
  # A negative zero is a zero.
  ifelse(is.na(x), NA, sprintf(paste0("%.", written_digits, "g"), x + 0))
}

# Replicates in the order of their cells and numbers: sums and draws depend on the order.
read_replicates <- function(path) {
  # A metric that no replicate of a study has is NA, so that derived metrics need no exceptions.
  read_measured(path) |>
    with_columns(measured_metrics) |>
    dplyr::arrange(block, cell, replicate)
}

# What replicates have that figures, tables and derived metrics look at.
measured_metrics <- c(
  "goodput_mbit", "total_goodput_mbit", "queue_mean_packets", "rtt_measured_ms", "jain_index",
  "unexplained_packets", "loss_offered_packets", "loss_packets", "download_s", "power",
  "trace_mbit", "trace_rate_cv", "trace_gap_max_ms", "trace_gaps_percent"
)

# Add the columns that are not there, filled with NA.
with_columns <- function(data, names) {
  for (name in setdiff(names, colnames(data))) data[[name]] <- rep(NA_real_, nrow(data))
  data
}

# One column per metric and statistic, as STATISTIC_METRIC, of a long table's rows; NA where a
# metric is not there.
by_metric <- function(rows, metrics, statistics) {
  wide <- tidyr::pivot_wider(
    rows,
    names_from = "metric", values_from = dplyr::all_of(statistics),
    names_glue = "{.value}_{metric}"
  )
  names <- as.vector(outer(statistics, metrics, paste, sep = "_"))
  # A single statistic needs no name.
  if (length(statistics) == 1) {
    wide <- dplyr::rename_with(wide, \(name) sub(paste0("^", statistics, "_"), "", name),
      .cols = dplyr::any_of(names)
    )
    names <- metrics
  }
  dplyr::relocate(with_columns(wide, names), dplyr::all_of(names), .after = dplyr::last_col())
}

read_published <- function(path) read_measured(path)

read_algorithms <- function(path) {
  readr::read_tsv(path, col_types = readr::cols(shape = "i", .default = "c"))
}
