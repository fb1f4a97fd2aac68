# What the instrument read beside what a closed form says.
library(dplyr, warn.conflicts = FALSE)

cells <- readr::read_csv(snakemake@input[["summary"]], show_col_types = FALSE) |>
  filter(statistic_over == "replicates")
write_table <- function(data, name) readr::write_csv(data, snakemake@output[[name]])

cells |>
  filter(block == "rtt", metric == "rtt_error_percent") |>
  select(rtt_ms, n, largest_error_percent = max) |>
  arrange(rtt_ms) |>
  write_table("rtt")

cells |>
  filter(block == "utilisation", metric == "utilisation_percent") |>
  mutate(theoretical_mbit = theoretical_goodput(rate_mbit)) |>
  select(rate_mbit, rtt_ms, algorithm, theoretical_mbit, n, utilisation_percent = mean) |>
  arrange(rate_mbit, algorithm) |>
  write_table("utilisation")

read_replicates(snakemake@input[["replicates"]]) |>
  pooled_loss() |>
  mutate(measured_percent = 100 * lost / offered) |>
  select(algorithm, loss_percent, rtt_ms, offered, lost, measured_percent, z) |>
  arrange(algorithm, loss_percent, rtt_ms) |>
  write_table("loss")

goodput <- cells |>
  filter(block %in% c("response", "response-cubic"), metric == "goodput_mbit") |>
  select(all_of(condition_columns), n, measured = mean, low = mean_low, high = mean_high)
goodput |>
  mutate(
    p = loss_percent / 100, rtt_s = rtt_ms / 1e3,
    model = response_mbit(algorithm, p, rtt_s),
    mathis = ifelse(algorithm == "reno", mathis_mbit(p, rtt_s), NA),
    ratio = measured / model
  ) |>
  select(algorithm, rtt_ms, loss_percent, n, model, mathis, measured, low, high, ratio) |>
  arrange(desc(algorithm), rtt_ms, loss_percent) |>
  write_table("response")

cells |>
  filter(block == "fairness", metric == "jain_index") |>
  select(algorithm, n, mean, low = mean_low, high = mean_high, min) |>
  arrange(desc(algorithm)) |>
  write_table("fairness")

cells |>
  filter(block == "queue", metric %in% c("queue_mean_bdp", "queue_mean_packets")) |>
  select(rate_mbit, rtt_ms, buffer_packets, algorithm, metric, mean) |>
  tidyr::pivot_wider(names_from = metric, values_from = mean) |>
  arrange(rate_mbit, algorithm) |>
  write_table("queue")
