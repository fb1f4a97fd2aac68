# What needs all studies: verdicts on the claims and on drafts' test cases, the agreement of equal
# cells, the published numbers beside ours, and the drawing of the path.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

# Draw a figure without missing cells, and write its description.
draw_to_files <- function(figure, name, height_cm, words = describe_figure(figure)) {
  paths <- unlist(snakemake@output[["figures"]])
  paths <- paths[sub("[.].*", "", basename(paths)) == name]
  texts <- endsWith(paths, ".txt")
  save_figure(figure, paths[!texts], height_cm, missing = tibble(cell = character()))
  writeLines(words, paths[texts])
}

claims <- lapply(unlist(snakemake@input[["claims"]]), read_claims)
data <- Map(function(cells, replicates, statistics) {
  replicates <- read_replicates(replicates) |> with_columns(c(agreement_metrics, agreement_windows))
  list(
    cells = read_cells(cells), replicates = derive_metrics(replicates),
    statistics = read_measured(statistics)
  )
}, unlist(snakemake@input[["cells"]]), unlist(snakemake@input[["replicates"]]),
unlist(snakemake@input[["statistics"]]))
names(data) <- vapply(claims, \(its) its$study, "")
cells <- bind_rows(lapply(data, \(its) its$cells))
replicates <- bind_rows(lapply(data, \(its) its$replicates))

Map(\(its, data) evaluate_claims(its$claims, data, its$study), claims, data) |>
  bind_rows() |>
  write_table(snakemake@output[["claims"]])

records <- unlist(snakemake@input[["records"]])
if (length(records) > 0) {
  write_table(read_conformed(records), unlist(snakemake@output[["conform"]]))
}

path <- path_values(filter(cells, n_replicates > 0))
draw_to_files(draw_path(path), "path", 6.4, path_text(path))

# Agreement: seeds, paths, and windows and halves of the runs.
seed_disagreements(replicates) |>
  summarise_disagreements() |>
  with_columns(c("study", "cells", "percent", "low", "high")) |>
  write_table(snakemake@output[["seeds"]])
write_table(coverage_of_intervals(replicates), snakemake@output[["coverage"]])
# Write all columns even if the campaign does not have the study.
paths <- path_agreement(filter(replicates, study == "loss"))
write_table(paths, snakemake@output[["paths"]])
Map(\(its, data) window_sensitivity(its$claims, data, its$study), claims, data) |>
  bind_rows() |>
  with_columns(c(
    "study", "claim", "unit", "tolerance", "measured", "verdict",
    as.vector(outer(names(agreement_windows), c("", "_verdict"), paste0))
  )) |>
  write_table(snakemake@output[["windows"]])
write_table(halves_of_cells(replicates), snakemake@output[["halves"]])
filter(paths, !is.na(ratio)) |>
  draw_agreement(read_algorithms(snakemake@input[["algorithms"]])) |>
  draw_to_files("agreement_paths", 8)

# The scoreboard of all published numbers. No study of the campaign may have any.
published <- as.character(unlist(snakemake@input[["published"]]))
names(published) <- basename(dirname(published))
numbers <- Map(
  \(study, path) published_numbers(study, read_published(path)), names(published), published
)
rows <- bind_rows(Map(scoreboard, numbers, data[names(published)]))
# Write all columns even if the campaign has no published number.
if (nrow(rows) == 0) rows <- join_facts(no_scores)
sources <- summarise_scoreboard(bind_rows(numbers), rows)
write_table(rows, snakemake@output[["numbers"]])
write_table(sources, snakemake@output[["sources"]])
write_table(summarise_metrics(rows), snakemake@output[["metrics"]])
draw_to_files(draw_scoreboard(rows, sources), "scoreboard", scoreboard_height_cm(sources))
