# Reading the workflow's tables, with the types that every later step relies on.

# Mean, spread and quartiles that the source prints, in its order.
statistics <- c("mean", "std", "min", "q25", "median", "q75", "max")

# The axes of a cell, which tell it from others together with its block.
condition_columns <- c(
  "algorithm", "loss_percent", "path", "app", "rtt_ms", "rate_mbit", "buffer_packets", "offloads",
  "loss_direction", "competitor", "queue", "sender_delay_ms", "trace", "scheme",
  "video", "duration_s", "warmup_s"
)

cell_columns <- c("study", "block", "cell", condition_columns)

# What is not a metric in the table of replicates.
fixed_columns <- c(
  cell_columns, "replicate", "seed", "valid", "reasons", "attempt", "earlier_reasons", "pinned"
)

# Columns of words; all others are numbers.
word_columns <- readr::cols(
  study = "c", block = "c", cell = "c", algorithm = "c", path = "c", app = "c", offloads = "c",
  loss_direction = "c", competitor = "c", queue = "c", trace = "c", scheme = "c", video = "c",
  reasons = "c", earlier_reasons = "c", valid = "l", pinned = "l", flow = "c", .default = "d"
)

# A table need not have all of the columns of words.
read_measured <- function(path) {
  names <- names(readr::read_csv(path, n_max = 0, show_col_types = FALSE))
  types <- word_columns
  types$cols <- types$cols[intersect(names(types$cols), names)]
  readr::read_csv(path, col_types = types)
}

read_replicates <- function(path) {
  replicates <- read_measured(path)
  # A metric that no replicate of a study has is NA, so that derived metrics need no exceptions.
  for (name in c("goodput_mbit", "total_goodput_mbit", "queue_mean_packets")) {
    if (!name %in% names(replicates)) replicates[[name]] <- NA_real_
  }
  replicates
}

read_published <- function(path) {
  readr::read_csv(path, show_col_types = FALSE)
}

read_algorithms <- function(path) {
  readr::read_tsv(path, col_types = readr::cols(shape = "i", .default = "c"))
}
