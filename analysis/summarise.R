# Statistics of a study: summary, decreases, ratios, invalid replicates.
for (path in unlist(snakemake@input[["functions"]])) source(path)
open_log(snakemake@log[[1]])
library(dplyr, warn.conflicts = FALSE)

replicates <- read_replicates(snakemake@input[["replicates"]])
summary <- bind_rows(
  summarise_replicates(derive_metrics(replicates)),
  summarise_seconds(read_measured(snakemake@input[["intervals"]]))
) |>
  select(
    all_of(cell_columns), statistic_over, metric, n, n_invalid, all_of(statistics), everything()
  )
readr::write_csv(summary, snakemake@output[["summary"]])
readr::write_csv(summarise_ratios(replicates), snakemake@output[["ratios"]])
replicates |>
  filter(!valid | attempt > 1) |>
  select(study, cell, replicate, seed, valid, reasons, attempt, earlier_reasons) |>
  readr::write_csv(snakemake@output[["invalid"]])
