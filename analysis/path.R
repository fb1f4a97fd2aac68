# Drawing of the path: hosts, links, position of rate, buffer, delay and loss, and the campaign's
# values.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)

cells <- dplyr::bind_rows(lapply(unlist(snakemake@input[["cells"]]), read_cells))
figure <- draw_path(path_values(cells))
save_figure(
  figure, unlist(snakemake@output[["figure"]]),
  height_cm = 6.4, missing = tibble::tibble(cell = character())
)
writeLines(path_text(path_values(cells)), snakemake@output[["words"]])
