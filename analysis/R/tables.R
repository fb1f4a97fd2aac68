# Reading and writing of the workflow's tables, with fixed column types.

# Mean, standard deviation, extremes and quartiles, in the source's order.
statistics <- c("mean", "std", "min", "q25", "median", "q75", "max")

cell_columns <- c("study", "block", "cell", condition_columns)

# Columns of the table of replicates that are not metrics.
fixed_columns <- c(
  cell_columns, "replicate", "seed", "valid", "reasons", "attempt", "earlier_reasons",
  "error_share"
)

# Text columns; all others are numeric, also in a table without rows.
word_columns <- c(
  "study", "block", "cell", condition_words, "flow", "reasons", "earlier_reasons", "unpinned",
  "hosts", "place", "digest",
  "metric", "statistic_over", "whose", "setup", "load", "runs_download", "label", "winner", "sign",
  "effect", "kind", "rule", "choose", "feature", "claim", "sentence", "tolerance", "verdict",
  "absent", "cause", "interval", "unit", "limit_is", "limit_because", "reason", "unsupported",
  "source", "against", "early_verdict", "late_verdict", "whole_verdict",
  "evidence", "exercise", "part", "item", "section", "from", "reading"
)

# Read a table with the column types that its column names imply.
read_measured <- remember(function(path, words = character()) {
  # A second call of readr for the header would take as long as a small table.
  names <- scan(path, "", sep = ",", quote = "\"", nlines = 1, quiet = TRUE, encoding = "UTF-8")
  types <- lapply(stats::setNames(names, names), function(name) {
    if (name %in% c("valid", "recorded")) {
      readr::col_logical()
    } else if (name == "seed") {
      readr::col_integer()
    } else if (name %in% c(word_columns, words)) {
      readr::col_character()
    } else {
      readr::col_double()
    }
  })
  rows <- suppressWarnings(readr::read_csv(path, col_types = do.call(readr::cols, types)))
  wrong <- readr::problems(rows)
  if (nrow(wrong) > 0) {
    name <- names[wrong$col[1]]
    stop(
      basename(path), ": the column ", name, " must have numbers, found ", wrong$actual[1],
      "; read text with read_measured(\"", basename(path), "\", words = \"", name, "\")"
    )
  }
  rows
})

# Significant digits of every written number. Goodput over 30 s at 1 Gbit/s counts packets, one part
# in two million. Six digits are enough for that, and two more allow further arithmetic. Versions of
# R, its packages and the C library differ from the fifteenth digit on.
written_digits <- 8
axis_digits <- 15

# Write a table, with the same bytes for the same rows. Nothing else writes tables.
write_table <- function(data, path) {
  data |>
    dplyr::ungroup() |>
    # Axes identify a cell, so they keep all digits of an axis's value.
    dplyr::mutate(
      dplyr::across(tidyselect::any_of(condition_columns) & tidyselect::where(is.double), \(x) {
        written_number(x, axis_digits)
      }),
      dplyr::across(tidyselect::where(is.double), written_number)
    ) |>
    readr::write_csv(path)
}

# Format a number with the C library, which rounds correctly; integers stay as they are.
written_number <- function(x, digits = written_digits) {
  # Remove the sign of a negative zero.
  ifelse(is.na(x), NA, sprintf(paste0("%.", digits, "g"), x + 0))
}

# Read replicates, ordered by cell and number, because sums and random draws depend on the order.
read_replicates <- function(path) {
  # A metric that no replicate of a study has is NA, so derived metrics need no special cases.
  read_measured(path) |>
    with_columns(c(measured_metrics, "error_share")) |>
    # Tables of earlier versions do not have it.
    dplyr::mutate(error_share = dplyr::coalesce(as.numeric(error_share), 1)) |>
    dplyr::arrange(block, cell, replicate)
}

# Metrics of replicates that figures, tables and derived metrics use.
measured_metrics <- c(
  "goodput_mbit", "total_goodput_mbit", "queue_mean_packets", "rtt_measured_ms", "jain_index",
  "unexplained_packets", "loss_offered_packets", "loss_packets", "download_s", "power",
  "completion_s", "response_median_ms",
  "trace_mbit", "trace_rate_cv", "trace_gap_max_ms", "trace_gaps_percent"
)

# Add missing columns, filled with NA.
with_columns <- function(data, names) {
  for (name in setdiff(names, colnames(data))) data[[name]] <- rep(NA_real_, nrow(data))
  data
}

# Reshape a long table to one column per metric and statistic, named STATISTIC_METRIC; NA if a
# metric is missing.
by_metric <- function(rows, metrics, statistics) {
  wide <- tidyr::pivot_wider(
    rows,
    names_from = "metric", values_from = dplyr::all_of(statistics),
    names_glue = "{.value}_{metric}"
  )
  names <- as.vector(outer(statistics, metrics, paste, sep = "_"))
  # With a single statistic, the column is named after the metric only.
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
  readr::read_tsv(path, col_types = readr::cols(shape = "i", .default = "c")) |>
    # Programs of the app `command` that choose their own.
    tibble::add_row(name = "own", label = "own programs", colour = "#555555", shape = 7L)
}
