# What every app is judged by, in a table of its own.
tables <- function(data, write) {
  replicates <- data$summary |>
    filter(statistic_over == "replicates")
  means <- function(rows, metrics) {
    rows |>
      filter(metric %in% metrics) |>
      select(block, algorithm, metric, mean) |>
      by_metric(metrics, "mean")
  }
  replicates |>
    means(c("goodput_mbit", "retransmits", "rtt_loaded_ms", "queue_mean_packets")) |>
    write("apps")
  replicates |>
    filter(app == "ffmpeg") |>
    means(c("time_to_first_frame_s", "stall_s", "frames_on_time_percent", "throughput_mbit")) |>
    write("video")
  replicates |>
    filter(app == "web") |>
    means(c("download_s", "rtt_before_fetch_ms", "bulk_goodput_mbit")) |>
    write("page")
  replicates |>
    filter(app == "datagram") |>
    means(c("link_throughput_mbit", "signal_delay_p95_ms", "power", "trace_mbit")) |>
    write("link")
}
