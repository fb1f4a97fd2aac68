# The drawn path: hosts, links, where rate, buffer, delay and loss are, and the campaign's values.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)

cells <- dplyr::bind_rows(lapply(unlist(snakemake@input[["cells"]]), read_cells))
figure <- draw_path(path_values(cells))
save_figure(
  figure, unlist(snakemake@output[["figure"]]),
  height_cm = 6.4, missing = tibble::tibble(cell = character())
)
writeLines(path_in_words(path_values(cells)), snakemake@output[["words"]])
