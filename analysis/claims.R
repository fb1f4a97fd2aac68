# The verdicts on a study's claims.
for (path in unlist(snakemake@input[["functions"]])) source(path)
open_log(snakemake@log[[1]])
library(dplyr, warn.conflicts = FALSE)

means <- readr::read_csv(snakemake@input[["summary"]], show_col_types = FALSE) |>
  filter(block == "main", app == "iperf3", metric == "goodput_mbit", statistic_over == "replicates")
file <- yaml::read_yaml(snakemake@input[["claims"]])
file$claims |>
  lapply(evaluate_claim, means = means, study = file$study) |>
  bind_rows() |>
  readr::write_csv(snakemake@output[[1]])
