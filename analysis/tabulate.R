# Write a study's tables. Its file defines `tables(data, write)`, which computes them from the
# study's data (`study_data()`) and passes each to `write` with its name.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(dplyr, warn.conflicts = FALSE)

source(snakemake@input[["code"]], local = TRUE)
tables(
  study_data(snakemake@input),
  function(rows, table) write_table(rows, snakemake@output[[table]])
)
