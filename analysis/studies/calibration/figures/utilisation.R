# Goodput without loss as a share of what the link's framing leaves.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
replicates <- read_replicates(snakemake@input[["replicates"]]) |>
  filter(block == "utilisation", valid) |>
  derive_metrics() |>
  mutate(rate = factor(paste(rate_mbit, "Mbit/s"), paste(sort(unique(rate_mbit)), "Mbit/s")))

figure <- ggplot(
  replicates, aes(rate, utilisation_percent, colour = algorithm, shape = algorithm)
) +
  geom_hline(yintercept = 99, linetype = "22", colour = "grey50") +
  geom_point(size = 2, position = position_dodge(0.4)) +
  scale_y_continuous(limits = c(97, 100.2)) +
  algorithm_scales(algorithms) +
  labs(x = "Rate of the bottleneck", y = "Share of the\ntheoretical goodput (%)") +
  theme_losslab()
missing <- missing_cells(read_cells(snakemake@input[["cells"]]), block == "utilisation")
save_figure(figure, unlist(snakemake@output), height_cm = 7, missing = missing)
