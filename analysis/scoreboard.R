# The scoreboard of all published numbers: their table, a summary by source, and the figure.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

# No study of the campaign may have published numbers.
study_of <- function(paths, suffix) sub(suffix, "", basename(as.character(paths)))
cells <- unlist(snakemake@input[["cells"]])
replicates <- unlist(snakemake@input[["replicates"]])
published <- unlist(snakemake@input[["published"]])
studies <- study_of(published, ".csv")
numbers <- Map(\(study, path) published_numbers(study, read_published(path)), studies, published)
rows <- Map(function(study, numbers) {
  data <- list(
    cells = read_cells(cells[study_of(cells, "_cells.csv") == study]),
    replicates = derive_metrics(
      read_replicates(replicates[study_of(replicates, "_replicates.csv") == study])
    )
  )
  scoreboard(numbers, data)
}, studies, numbers) |>
  bind_rows()
# Write all columns even if the campaign has no published number.
if (nrow(rows) == 0) rows <- join_facts(no_scores)
sources <- summarise_scoreboard(bind_rows(numbers), rows)
write_table(rows, snakemake@output[["numbers"]])
write_table(sources, snakemake@output[["sources"]])

figure <- draw_scoreboard(rows, sources)
save_figure(
  figure, unlist(snakemake@output[["figure"]]),
  height_cm = scoreboard_height_cm(sources), missing = tibble(cell = character())
)
writeLines(describe_figure(figure), snakemake@output[["words"]])
