# The source's figure 1: congestion window over time without added loss, in both set-ups.
for (path in unlist(snakemake@input[["functions"]])) source(path)
open_log(snakemake@log[[1]])
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
cwnd <- read_measured(snakemake@input[["flows"]]) |>
  filter(block %in% c("published", "routers"), loss_percent == 0) |>
  mutate(setup = label_setups(sender_delay_ms))

figure <- ggplot(cwnd, aes(t_s, cwnd_packets, colour = algorithm)) +
  geom_step(linewidth = 0.4) +
  facet_wrap(vars(setup)) +
  algorithm_scales(algorithms) +
  guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
  labs(x = "Time since the flow's start (s)", y = "Congestion window (packets)") +
  theme_losslab()
save_figure(figure, unlist(snakemake@output), height_cm = 8)
