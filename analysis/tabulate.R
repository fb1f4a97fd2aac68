# Run a study's own code for its tables.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(dplyr, warn.conflicts = FALSE)
source(snakemake@input[["code"]], local = TRUE)
