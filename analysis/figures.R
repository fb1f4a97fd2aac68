# Draw the figures of a study. The file of each figure defines:
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

# Draw one figure to the rule's files of its name, and describe it in others.
draw_to_files <- function(code, data, output) {
  own <- new.env()
  own$shown <- identity
  own$width_cm <- figure_width_cm
  source(code, local = own)
  cells <- own$shown(data$cells)
  figure <- own$draw(data)
  study <- basename(dirname(dirname(code)))
  name <- paste0(study, "_", sub("[.]R$", "", basename(code)))
  files_of <- function(kind) {
    paths <- as.character(unlist(output[[kind]]))
    paths[sub("[.].*", "", basename(paths)) == name]
  }
  builds <- save_figure(
    figure, c(files_of("figure"), files_of("others")),
    height_cm = if (is.function(own$height_cm)) own$height_cm(data) else own$height_cm,
    missing = missing_cells(cells), width_cm = own$width_cm
  )
  describe_in_files(figure, cells, files_of("described"), builds)
}

data <- study_data(snakemake@input)
for (code in unlist(snakemake@input[["code"]])) {
  script$file <- analysis_path(code)
  draw_to_files(code, data, snakemake@output)
}
