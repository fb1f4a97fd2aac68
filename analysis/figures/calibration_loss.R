# Lost packets against the binomial distribution, in standard errors.
for (path in unlist(snakemake@input[["functions"]])) source(path)
open_log(snakemake@log[[1]])
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
cells <- read_replicates(snakemake@input[["replicates"]]) |>
  pooled_loss() |>
  mutate(cell = paste0(loss_percent, " %, ", rtt_ms, " ms"), cell = reorder(cell, loss_percent))

figure <- ggplot(cells, aes(cell, z, colour = algorithm, shape = algorithm)) +
  annotate("rect", xmin = -Inf, xmax = Inf, ymin = -1.96, ymax = 1.96, fill = "grey90") +
  geom_hline(yintercept = 0, colour = "grey60") +
  geom_hline(yintercept = c(-3, 3), linetype = "22", colour = "grey50") +
  geom_point(size = 2) +
  algorithm_scales(algorithms) +
  labs(x = "Configured loss and RTT", y = "Distance from the expected\nlosses (standard errors)") +
  theme_losslab()
save_figure(figure, unlist(snakemake@output), height_cm = 7)
