# Goodput in containers over goodput on the virtual backend; and how many replicates each gave.
library(dplyr, warn.conflicts = FALSE)

replicates <- read_replicates(snakemake@input[["replicates"]])
summarise_backend_ratios(backend_ratios(replicates)) |>
  select(block, algorithm, loss_percent, n, mean_virtual, mean_value, ratio, low, high) |>
  arrange(block, desc(algorithm), loss_percent) |>
  write_table(snakemake@output[["ratio"]])
replicates |>
  group_by(block) |>
  summarise(
    cells = n_distinct(cell), replicates = n(), n_valid = sum(valid),
    rtt_low_ms = least(rtt_measured_ms), rtt_high_ms = most(rtt_measured_ms),
    unexplained_packets = sum(unexplained_packets, na.rm = TRUE),
    .groups = "drop"
  ) |>
  arrange(desc(block)) |>
  write_table(snakemake@output[["machines"]])
