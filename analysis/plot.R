# Draw a command's figure (`losslab plot`, `sweep`, `whatif`) to files.
#
# Arguments: the figure's script, its table, algorithms.tsv, the number of function files, these
# files, and the figures' files. The script defines:
#
# - `read(path)`, which reads the table,
# - `draw(data, algorithms)`, which returns the plot,
# - `height_cm` and, if it is not the report's, `width_cm`: a number or a function of the data.
arguments <- commandArgs(trailingOnly = TRUE)
n_functions <- as.integer(arguments[4])
for (path in arguments[4 + seq_len(n_functions)]) source(path)
one_locale()
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

in_order <- function(x) factor(x, levels = unique(x))
length_of <- function(size, data) if (is.function(size)) size(data) else size

width_cm <- figure_width_cm
source(arguments[1])
data <- read(arguments[2])
figure_width_cm <- length_of(width_cm, data)
save_figure(
  draw(data, read_algorithms(arguments[3])),
  utils::tail(arguments, -(4 + n_functions)),
  height_cm = length_of(height_cm, data),
  missing = tibble(cell = character())
)
