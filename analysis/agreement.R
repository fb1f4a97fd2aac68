# Tables and the figure of the chapter on the reliability of the numbers.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

studies <- lapply(snakemake@input[["claims"]], yaml::read_yaml)
replicates <- lapply(snakemake@input[["replicates"]], \(path) {
  read_replicates(path) |> with_columns(c(agreement_metrics, agreement_windows))
})
seed_disagreements(bind_rows(replicates)) |>
  summarise_disagreements() |>
  with_columns(c("study", "cells", "percent", "low", "high")) |>
  write_table(snakemake@output[["seeds"]])

# Write all columns even if the campaign does not have the study.
paths <- path_agreement(filter(bind_rows(replicates), study == "loss"))
write_table(paths, snakemake@output[["paths"]])

Map(function(study, cells, replicates) {
  data <- list(cells = read_cells(cells), replicates = derive_metrics(replicates))
  window_sensitivity(study$claims, data, study$study)
}, studies, snakemake@input[["cells"]], replicates) |>
  bind_rows() |>
  with_columns(c(
    "study", "claim", "unit", "tolerance", "measured", "verdict",
    as.vector(outer(names(agreement_windows), c("", "_verdict"), paste0))
  )) |>
  write_table(snakemake@output[["windows"]])

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
figure <- filter(paths, !is.na(ratio)) |>
  ggplot(aes(loss_percent, ratio, colour = algorithm, shape = algorithm)) +
  geom_hline(yintercept = 1, colour = "grey60", linewidth = 0.3) +
  geom_linerange(aes(ymin = low, ymax = high), position = position_dodge(0.4), na.rm = TRUE) +
  geom_point(size = 1.8, position = position_dodge(0.4)) +
  scale_x_continuous(breaks = 0:10) +
  algorithm_scales(algorithms) +
  labs(x = "Loss, %", y = "Asymmetric / symmetric") +
  theme_losslab()
save_figure(
  figure, unlist(snakemake@output[["figure"]]),
  height_cm = 8, missing = tibble(cell = character())
)
writeLines(describe_figure(figure), snakemake@output[["words"]])
