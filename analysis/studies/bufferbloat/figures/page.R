# Congestion window of the page's connection beside a long-lived flow.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
page <- read_measured(snakemake@input[["flows"]]) |>
  filter(block == "web", flow == "web", competitor != "none") |>
  group_by(cell) |>
  mutate(t_s = t_s - min(t_s)) |>
  ungroup() |>
  mutate(buffer = label_buffers(buffer_packets))

figure <- ggplot(page, aes(t_s, cwnd_packets, colour = algorithm)) +
  geom_step(linewidth = 0.5) +
  facet_wrap(vars(buffer)) +
  algorithm_scales(algorithms) +
  labs(x = "Time since the connection was made (s)", y = "Congestion window (packets)") +
  theme_losslab()
missing <- missing_cells(
  read_cells(snakemake@input[["cells"]]),
  block == "web", competitor != "none"
)
save_figure(figure, unlist(snakemake@output), height_cm = 7.5, missing = missing)
