# RTT of the idle path: measured over configured.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

replicates <- read_replicates(snakemake@input[["replicates"]]) |>
  filter(block == "rtt", valid) |>
  derive_metrics()

figure <- ggplot(replicates, aes(factor(rtt_ms), 100 * (rtt_measured_ms / rtt_ms - 1))) +
  annotate("rect", xmin = -Inf, xmax = Inf, ymin = -0.1, ymax = 0.1, fill = "grey90") +
  geom_hline(yintercept = 0, colour = "grey60") +
  geom_point(size = 1.8) +
  labs(x = "Configured RTT (ms)", y = "Error of the\nmeasured RTT (%)") +
  theme_losslab()
missing <- missing_cells(read_cells(snakemake@input[["cells"]]), block == "rtt")
save_figure(figure, unlist(snakemake@output), height_cm = 6, missing = missing)
