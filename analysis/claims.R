# Verdicts on every study's claims.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(dplyr, warn.conflicts = FALSE)

judge <- function(claims, cells, replicates) {
  file <- yaml::read_yaml(claims)
  data <- list(
    cells = read_cells(cells), replicates = derive_metrics(read_replicates(replicates))
  )
  evaluate_claims(file$claims, data, file$study)
}
Map(
  judge,
  snakemake@input[["claims"]], snakemake@input[["cells"]], snakemake@input[["replicates"]]
) |>
  bind_rows() |>
  write_table(snakemake@output[[1]])
