# The source's numbers with ours beside them, and what an AQM buys.
library(dplyr, warn.conflicts = FALSE)

published <- read_published(snakemake@input[["published"]])
readr::write_csv(published, snakemake@output[["published"]])
cells <- readr::read_csv(snakemake@input[["summary"]], show_col_types = FALSE) |>
  filter(
    app == "web", metric %in% c("download_s", "rtt_before_fetch_ms"),
    statistic_over == "replicates"
  ) |>
  mutate(load = ifelse(competitor == "none", "alone", "loaded")) |>
  select(
    block, algorithm, queue, buffer_packets, load, metric, n, mean, low = mean_low,
    high = mean_high
  )

wide <- cells |>
  mutate(metric = ifelse(metric == "download_s", "download", "rtt")) |>
  tidyr::pivot_wider(names_from = metric, values_from = c(mean, low, high))

# Single runs, for readers who compare them with the source's.
runs <- read_replicates(snakemake@input[["replicates"]]) |>
  filter(valid, app == "web") |>
  mutate(load = ifelse(competitor == "none", "alone", "loaded")) |>
  group_by(block, algorithm, queue, buffer_packets, load) |>
  summarise(
    min_download = min(download_s), max_download = max(download_s),
    runs_download = paste(formatC(sort(download_s), format = "f", digits = 3), collapse = " "),
    .groups = "drop"
  )

wide |>
  filter(block %in% c("web", "two-queues")) |>
  left_join(runs, by = c("block", "algorithm", "queue", "buffer_packets", "load")) |>
  left_join(
    published |>
      mutate(buffer_packets = 100) |>
      select(
        algorithm, queue, buffer_packets, load, published_download_s = download_s,
        published_rtt_ms = rtt_ms
      ),
    by = c("algorithm", "queue", "buffer_packets", "load")
  ) |>
  arrange(queue, desc(algorithm), buffer_packets, load) |>
  readr::write_csv(snakemake@output[["web"]])

wide |>
  filter(load == "loaded", buffer_packets == 100) |>
  mutate(queue = label_queues(queue)) |>
  arrange(desc(algorithm), queue) |>
  readr::write_csv(snakemake@output[["aqm"]])
