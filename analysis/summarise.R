# Statistics of a study: summary, decreases, ratios, invalid replicates.
for (path in unlist(snakemake@input[["functions"]])) source(path)
open_log(snakemake@log[[1]])
library(dplyr, warn.conflicts = FALSE)

metrics <- c(
  "goodput_mbit", "retransmits", "rtt_measured_ms", "rtt_loaded_ms", "loss_measured_percent",
  "time_to_first_frame_s", "stall_count", "stall_s", "frames_on_time_percent",
  "frames_delivered_percent", "completion_s", "throughput_mbit"
)
replicates <- read_replicates(snakemake@input[["replicates"]])
summary <- bind_rows(
  summarise_replicates(replicates, metrics),
  summarise_seconds(read_intervals(snakemake@input[["intervals"]]))
) |>
  select(
    all_of(cell_columns), statistic_over, metric, n, n_invalid, all_of(statistics), everything()
  )
readr::write_csv(summary, snakemake@output[["summary"]])
readr::write_csv(summarise_ratios(replicates), snakemake@output[["ratios"]])
replicates |>
  filter(!valid) |>
  select(cell, replicate, seed, reasons) |>
  readr::write_csv(snakemake@output[["invalid"]])
