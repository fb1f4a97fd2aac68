# Statistics of a study: summary, ratios and invalid replicates.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(dplyr, warn.conflicts = FALSE)

replicates <- read_replicates(snakemake@input[["replicates"]])
bind_rows(
  summarise_replicates(derive_metrics(replicates)),
  summarise_seconds(read_measured(snakemake@input[["intervals"]]))
) |>
  select(
    all_of(cell_columns), statistic_over, metric, n, n_invalid, all_of(names(no_statistics))
  ) |>
  arrange(across(all_of(cell_columns)), statistic_over, metric) |>
  write_table(snakemake@output[["summary"]])
ratios <- summarise_ratios(replicates)
ratios |>
  arrange(across(-all_of(names(no_statistics)))) |>
  write_table(snakemake@output[["ratios"]])
replicates |>
  filter(!valid | attempt > 1) |>
  select(study, cell, replicate, seed, valid, reasons, attempt, earlier_reasons) |>
  arrange(cell, replicate) |>
  write_table(snakemake@output[["invalid"]])
