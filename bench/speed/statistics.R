# Cost of R's statistics: Rscript bench/speed/statistics.R REPLICATES_CSV ROWS. Reads a table of
# replicates and repeats its cells with other buffers until it has ROWS rows. Prints the numbers of
# rows and cells, and the CPU seconds of reading, summary and ratios.
arguments <- commandArgs(trailingOnly = TRUE)
for (path in list.files("analysis/R", full.names = TRUE)) source(path)
one_locale()
suppressPackageStartupMessages(library(dplyr))
seconds <- function(code) {
  begin <- proc.time()
  force(code)
  sum((proc.time() - begin)[c("user.self", "sys.self")])
}
some <- utils::read.csv(arguments[1], check.names = FALSE)
rows <- as.integer(arguments[2])
repeats <- ceiling(rows / nrow(some))
many <- some[rep(seq_len(nrow(some)), repeats), ]
number <- rep(seq_len(repeats), each = nrow(some))
many$buffer_packets <- many$buffer_packets + number
many$cell <- paste0(many$cell, "_", number)
# Axes that were added after the table was recorded.
for (column in setdiff(condition_columns, names(many))) {
  many[[column]] <- if (column %in% condition_words) "none" else 0
}
file <- tempfile(fileext = ".csv")
utils::write.csv(utils::head(many, rows), file, row.names = FALSE, na = "")
read <- seconds(replicates <- read_replicates(file))
summary <- seconds(invisible(summarise_replicates(derive_metrics(replicates))))
ratios <- seconds(invisible(summarise_ratios(replicates)))
cat(nrow(replicates), dplyr::n_distinct(replicates$cell), read, summary, ratios, "\n")
