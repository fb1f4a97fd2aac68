# Jain's index of two equal flows, a point per seed.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
replicates <- read_replicates(snakemake@input[["replicates"]]) |>
  filter(block == "fairness", valid) |>
  mutate(label = setNames(algorithms$label, algorithms$name)[algorithm])

figure <- ggplot(replicates, aes(jain_index, label, colour = algorithm, shape = algorithm)) +
  geom_vline(xintercept = 0.99, linetype = "22", colour = "grey50") +
  geom_point(
    size = 2, alpha = 0.7, show.legend = FALSE,
    position = position_jitter(height = 0.15, width = 0, seed = 1)
  ) +
  stat_summary(fun = mean, geom = "point", shape = 124, size = 7, show.legend = FALSE) +
  algorithm_scales(algorithms) +
  labs(x = "Jain's index of the two flows' goodput", y = NULL) +
  theme_losslab()
missing <- missing_cells(read_cells(snakemake@input[["cells"]]), block == "fairness")
save_figure(figure, unlist(snakemake@output), height_cm = 6, missing = missing)
