# Table of the verdicts on drafts' test cases.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)

read_conformed(snakemake@input[["records"]]) |>
  write_table(snakemake@output[[1]])
