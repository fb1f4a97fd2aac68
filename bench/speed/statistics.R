# What R's statistics cost: Rscript bench/speed/statistics.R REPLICATES_CSV ROWS. Reads a table of
# replicates, repeats its cells under other buffers until it has so many rows, and prints the processor
# seconds of reading, summary and ratios behind the numbers of rows and cells.
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
copies <- ceiling(rows / nrow(some))
many <- some[rep(seq_len(nrow(some)), copies), ]
copy <- rep(seq_len(copies), each = nrow(some))
many$buffer_packets <- many$buffer_packets + copy
many$cell <- paste0(many$cell, "_", copy)
# Axes that are younger than the table.
for (column in setdiff(condition_columns, names(many))) {
  many[[column]] <- if (column %in% condition_words) "none" else 0
}
file <- tempfile(fileext = ".csv")
utils::write.csv(utils::head(many, rows), file, row.names = FALSE, na = "")
read <- seconds(replicates <- read_replicates(file))
summary <- seconds(invisible(summarise_replicates(derive_metrics(replicates))))
ratios <- seconds(invisible(summarise_ratios(replicates)))
cat(nrow(replicates), dplyr::n_distinct(replicates$cell), read, summary, ratios, "\n")
