# Run a study's own code for its tables.
for (path in unlist(snakemake@input[["functions"]])) source(path)
open_log(snakemake@log[[1]])
source(snakemake@input[["code"]])
