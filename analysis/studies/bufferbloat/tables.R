# The source's numbers with ours beside them, and what an AQM buys.
tables <- function(data, write) {
  published <- data$published
  write(published, "published")
  cells <- data$summary |>
    filter(
      app == "web", metric %in% c("download_s", "rtt_before_fetch_ms"),
      statistic_over == "replicates"
    ) |>
    mutate(load = if_else(competitor == "none", "alone", "loaded")) |>
    select(
      block, algorithm, queue, buffer_packets, load, metric, n, mean, low = mean_low,
      high = mean_high
    )

  wide <- cells |>
    mutate(metric = if_else(metric == "download_s", "download", "rtt")) |>
    by_metric(c("download", "rtt"), c("mean", "low", "high"))

  # Single runs, for readers who compare them with the source's.
  runs <- data$replicates |>
    filter(valid, app == "web", !is.na(download_s)) |>
    mutate(load = if_else(competitor == "none", "alone", "loaded")) |>
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
          published_rtt_ms = rtt_before_fetch_ms
        ),
      by = c("algorithm", "queue", "buffer_packets", "load")
    ) |>
    arrange(block, queue, desc(algorithm), buffer_packets, load) |>
    write("web")

  wide |>
    filter(load == "loaded", buffer_packets == 100) |>
    mutate(queue = label_queues(queue)) |>
    arrange(desc(algorithm), queue, block) |>
    write("aqm")
}
