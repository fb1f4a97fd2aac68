# Draw a figure. Its study's file says, and says no more than, how:
#
# - `draw(data)` gives the plot of the study's data (`study_data()`),
# - `height_cm` is a number, or a function of the data that gives one,
# - `shown(cells)` are the cells that the figure shows: all, if it does not say. Those that have no
#   number are named below the figure.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

shown <- identity
source(snakemake@input[["code"]], local = TRUE)
data <- study_data(snakemake@input)
cells <- shown(data$cells)
figure <- draw(data)
save_figure(
  figure, unlist(snakemake@output[["figure"]]),
  height_cm = if (is.function(height_cm)) height_cm(data) else height_cm,
  missing = missing_cells(cells)
)
describe_in_files(figure, cells, snakemake@output)
