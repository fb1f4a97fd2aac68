# Congestion window over time at 0, 1 and 5 % loss, first replicate.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
cwnd <- read_measured(snakemake@input[["flows"]]) |>
  filter(path == "symmetric") |>
  mutate(loss = paste(loss_percent, "% loss"))

figure <- ggplot(cwnd, aes(t_s, cwnd_packets, colour = algorithm)) +
  geom_step(linewidth = 0.3) +
  facet_wrap(vars(loss), ncol = 1) +
  scale_y_log10() +
  algorithm_scales(algorithms) +
  guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
  labs(x = "Time since the flow's start (s)", y = "Congestion window (packets)") +
  theme_losslab()
missing <- missing_cells(
  read_cells(snakemake@input[["cells"]]),
  block == "main", app == "iperf3", path == "symmetric", loss_percent %in% c(0, 1, 5)
)
save_figure(figure, unlist(snakemake@output), height_cm = 13, missing = missing)
