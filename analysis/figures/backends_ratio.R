# Goodput in containers over goodput on the virtual backend, per cell, with its interval.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
ratios <- read_replicates(snakemake@input[["replicates"]]) |>
  backend_ratios() |>
  summarise_backend_ratios() |>
  mutate(
    where = factor(backend_labels[block], backend_labels),
    loss = factor(paste(loss_percent, "%"), paste(sort(unique(loss_percent)), "%"))
  )

figure <- ggplot(ratios, aes(loss, ratio, colour = algorithm, shape = algorithm)) +
  geom_hline(yintercept = 1, linewidth = 0.3) +
  geom_linerange(
    aes(ymin = low, ymax = high), position = position_dodge(width = 0.4), na.rm = TRUE
  ) +
  geom_point(size = 2, position = position_dodge(width = 0.4)) +
  facet_wrap(vars(where)) +
  algorithm_scales(algorithms) +
  labs(x = "Random loss", y = "Containers / virtual") +
  theme_losslab()
missing <- missing_cells(read_cells(snakemake@input[["cells"]]))
save_figure(figure, unlist(snakemake@output), height_cm = 7.5, missing = missing)
