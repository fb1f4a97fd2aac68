# The verdicts on every study's claims.
for (path in unlist(snakemake@input[["functions"]])) source(path)
open_log(snakemake@log[[1]])
library(dplyr, warn.conflicts = FALSE)

judge <- function(claims, summary, replicates) {
  file <- yaml::read_yaml(claims)
  data <- list(
    summary = readr::read_csv(summary, show_col_types = FALSE),
    replicates = read_replicates(replicates)
  )
  bind_rows(lapply(file$claims, evaluate_claim, data = data, study = file$study))
}
Map(
  judge,
  snakemake@input[["claims"]], snakemake@input[["summaries"]], snakemake@input[["replicates"]]
) |>
  bind_rows() |>
  readr::write_csv(snakemake@output[[1]])
