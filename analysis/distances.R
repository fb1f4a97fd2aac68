# The report's first figure: every claim's number and its distance from the published one.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)

distances <- claim_distances(read_measured(snakemake@input[["claims"]]))
save_figure(
  draw_distances(distances), unlist(snakemake@output[["figure"]]),
  height_cm = distances_height_cm(distances), missing = tibble::tibble(cell = character())
)
writeLines(distances_text(distances), snakemake@output[["words"]])
