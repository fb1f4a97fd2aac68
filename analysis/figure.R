# Draw a figure. Its study's file defines:
#
# - `draw(data)`, which returns the plot of the study's data (`study_data()`),
# - `height_cm`, a number or a function of the data,
# - `width_cm`, if it is not as wide as the text,
# - `shown(cells)`, which selects the cells of the figure (default: all). A note below the figure
#   names those without a valid result.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

shown <- identity
width_cm <- figure_width_cm
source(snakemake@input[["code"]], local = TRUE)
data <- study_data(snakemake@input)
cells <- shown(data$cells)
figure <- draw(data)
save_figure(
  figure, unlist(snakemake@output[["figure"]]),
  height_cm = if (is.function(height_cm)) height_cm(data) else height_cm,
  missing = missing_cells(cells), width_cm = width_cm
)
describe_in_files(figure, cells, snakemake@output)
