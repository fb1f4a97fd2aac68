# Queue at the bottleneck over time, in bandwidth-delay products.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
queue <- read_measured(snakemake@input[["queue"]]) |>
  filter(block == "queue") |>
  mutate(
    rate = factor(paste(rate_mbit, "Mbit/s"), paste(sort(unique(rate_mbit)), "Mbit/s")),
    bdp = backlog_packets / bdp_packets(rate_mbit, rtt_ms)
  )

figure <- ggplot(queue, aes(t_s, bdp, colour = algorithm)) +
  geom_hline(yintercept = 1, linetype = "22", colour = "grey50") +
  geom_step(linewidth = 0.3) +
  facet_wrap(vars(rate), ncol = 1) +
  algorithm_scales(algorithms) +
  guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
  labs(x = "Time since the flow's start (s)", y = "Queue (bandwidth-delay products)") +
  theme_losslab()
missing <- missing_cells(read_cells(snakemake@input[["cells"]]), block == "queue")
save_figure(figure, unlist(snakemake@output), height_cm = 10, missing = missing)
