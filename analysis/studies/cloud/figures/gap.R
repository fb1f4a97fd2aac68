# What makes the published gap: goodput without added loss over the bottleneck's buffer.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
short <- c("published", "routers", "setup")
cells <- read_measured(snakemake@input[["summary"]]) |>
  filter(
    block %in% short, loss_percent == 0, metric == "goodput_mbit", app == "iperf3",
    statistic_over == "replicates"
  ) |>
  mutate(setup = label_setups(sender_delay_ms))
published <- read_published(snakemake@input[["published"]]) |>
  filter(app == "iperf3", competitor == "none", loss_percent == 0)

figure <- ggplot(cells, aes(buffer_packets, mean, colour = algorithm, shape = algorithm)) +
  geom_hline(
    aes(yintercept = goodput_mbit, colour = algorithm, linetype = "published"),
    data = published, linewidth = 0.4
  ) +
  geom_line(linewidth = 0.5) +
  geom_linerange(aes(ymin = mean_low, ymax = mean_high), na.rm = TRUE) +
  geom_point(size = 2) +
  facet_wrap(vars(setup)) +
  scale_x_log10(breaks = c(10, 20, 40, 80, 320, 1040)) +
  log_mbit() +
  algorithm_scales(algorithms) +
  scale_linetype_manual(values = c(published = "dashed"), name = NULL) +
  guides(linetype = guide_legend(override.aes = list(colour = "black"))) +
  labs(x = "Buffer of the bottleneck (packets)", y = "Goodput of 5 s (Mbit/s)") +
  theme_losslab()
missing <- missing_cells(
  read_cells(snakemake@input[["cells"]]),
  block %in% short, loss_percent == 0
)
save_figure(figure, unlist(snakemake@output), height_cm = 8.5, missing = missing)
