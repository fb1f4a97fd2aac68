# Statistics, tables and figures of a study. Its file tables.R defines `tables(data, write)`, which
# computes its tables from the study's data (`study_data()`) and passes each to `write` with its
# name. The file of each figure defines:
#
# - `draw(data)`, which returns the plot of the study's data,
# - `height_cm`, a number or a function of the data,
# - `width_cm`, if it is not as wide as the text,
# - `shown(cells)`, which selects the cells of the figure (default: all). A note below the figure
#   names those without a valid result.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

# Read a study's file, which must define some names, into an environment with some defaults.
source_study <- function(path, names, ...) {
  script$file <- analysis_path(path)
  own <- list2env(list(...), new.env(parent = environment()))
  source(path, local = own)
  if (length(missing <- setdiff(names, ls(own))) > 0) {
    stop("the file must define ", toString(names), ", found no ", toString(missing))
  }
  own
}

# Draw one figure to the rule's files of its name, and describe it in others.
draw_to_files <- function(code, data, output) {
  definitions <- source_study(
    code, c("draw", "height_cm"), shown = identity, width_cm = figure_width_cm
  )
  cells <- definitions$shown(data$cells)
  figure <- definitions$draw(data)
  height_cm <- definitions$height_cm
  if (is.function(height_cm)) height_cm <- height_cm(data)
  if (!inherits(figure, "ggplot")) stop("draw must return a plot, found ", class(figure)[1])
  name <- sub("[.]R$", "", basename(code))
  files_of <- function(kind) {
    paths <- as.character(unlist(output[[kind]]))
    paths[sub("[.].*", "", basename(paths)) == name]
  }
  builds <- save_figure(
    figure, c(files_of("figure"), files_of("others")),
    height_cm = height_cm, missing = missing_cells(cells), width_cm = definitions$width_cm
  )
  describe_in_files(figure, cells, files_of("described"), builds)
}

data <- study_data(c(snakemake@input, snakemake@output))
# Statistics. Tables and figures read what is written here.
bind_rows(
  summarise_replicates(derive_metrics(data$replicates)), summarise_seconds(data$intervals)
) |>
  select(
    all_of(cell_columns), statistic_over, metric, n, n_invalid, all_of(names(no_statistics))
  ) |>
  arrange(across(all_of(cell_columns)), statistic_over, metric) |>
  write_table(snakemake@output[["summary"]])
summarise_ratios(data$replicates) |>
  arrange(across(-all_of(names(no_statistics)))) |>
  write_table(snakemake@output[["ratios"]])
data$replicates |>
  filter(!valid | attempt > 1) |>
  select(study, cell, replicate, seed, valid, reasons, attempt, earlier_reasons) |>
  arrange(cell, replicate) |>
  write_table(snakemake@output[["invalid"]])

table_paths <- as.character(unlist(snakemake@output[["tables"]]))
written <- character()
source_study(snakemake@input[["code"]], "tables")$tables(data, function(rows, table) {
  path <- table_paths[basename(table_paths) == paste0(table, ".csv")]
  if (length(path) == 0) stop("the study's YAML file must list each table, found no ", table)
  write_table(rows, path)
  written <<- c(written, path)
})
if (length(left <- setdiff(table_paths, written)) > 0) {
  stop("tables must write each table of the study's YAML file, found no ", toString(basename(left)))
}

for (code in unlist(snakemake@input[["figures"]])) draw_to_files(code, data, snakemake@output)
