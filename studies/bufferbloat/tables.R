# Published and measured numbers, results for the source's items, and the effect of an AQM.
tables <- function(data, write) {
  published <- data$published
  write(published, "published")
  metrics <- c(
    download = "download_s", rtt = "rtt_before_fetch_ms", rtt_min = "rtt_before_fetch_min_ms",
    rtt_max = "rtt_before_fetch_max_ms", rtt_mdev = "rtt_before_fetch_mdev_ms"
  )
  wide <- data$summary |>
    filter(app == "web", metric %in% metrics, statistic_over == "replicates") |>
    mutate(
      load = if_else(competitor == "none", "alone", "loaded"),
      metric = names(metrics)[match(metric, metrics)]
    ) |>
    select(
      block, algorithm, queue, buffer_packets, load, metric, n, mean,
      low = mean_low, high = mean_high
    ) |>
    by_metric(names(metrics), c("mean", "low", "high"))

  # Single runs, to compare with the source's.
  runs <- web_runs(data$replicates) |>
    group_by(block, algorithm, queue, buffer_packets, load) |>
    summarise(
      median_download = stats::median(download_s),
      min_download = min(download_s), max_download = max(download_s),
      runs_download = paste(formatC(sort(download_s), format = "f", digits = 3), collapse = " "),
      .groups = "drop"
    )

  wide |>
    filter(block %in% web_blocks) |>
    left_join(runs, by = c("block", "algorithm", "queue", "buffer_packets", "load")) |>
    left_join(
      published |>
        transmute(
          algorithm, queue = queue, buffer_packets = 100, load,
          published_download_s = download_s, published_rate_kib_s = rate_kib_s,
          published_rtt_min_ms = rtt_before_fetch_min_ms, published_rtt_ms = rtt_before_fetch_ms,
          published_rtt_max_ms = rtt_before_fetch_max_ms,
          published_rtt_mdev_ms = rtt_before_fetch_mdev_ms
        ),
      by = c("algorithm", "queue", "buffer_packets", "load")
    ) |>
    mutate(rate_kib_s = page_kib / mean_download) |>
    arrange(match(block, web_blocks), queue, desc(algorithm), buffer_packets, load) |>
    write("web")

  # End of the page's own slow start, and download time.
  web_runs(data$replicates) |>
    with_columns(c("page_ssthresh_packets", "page_retransmits", "connect_s")) |>
    filter(
      block %in% web_blocks, load == "loaded", queue == "fifo", buffer_packets == 100,
      !is.na(page_ssthresh_packets)
    ) |>
    mutate(early = page_ssthresh_packets < early_packets) |>
    group_by(block, algorithm, early) |>
    summarise(
      n = n(), fastest_s = min(download_s), slowest_s = max(download_s),
      download_s = mean(download_s), connect_s = mean(connect_s),
      ssthresh_packets = mean(page_ssthresh_packets), .groups = "drop"
    ) |>
    arrange(match(block, web_blocks), desc(algorithm), desc(early)) |>
    write("modes")

  wide |>
    filter(load == "loaded", buffer_packets == 100, !grepl("^published", block)) |>
    left_join(
      select(runs, -runs_download),
      by = c("block", "algorithm", "queue", "buffer_packets", "load")
    ) |>
    mutate(queue = label_queues(queue)) |>
    arrange(desc(algorithm), queue, block) |>
    write("aqm")

  phases <- all_phases(data$flows)
  write(phases, "phases")
  phases |>
    group_by(algorithm, buffer_packets) |>
    summarise(
      n = n(), mean_peak = mean(peak), keeps = mean(w_start / peak),
      growth_s = mean(end_s - start_s), passes = as.numeric(sum(!is.na(regained_s))),
      k_mean_s = mean(k_s), k_passing_s = mean(k_s[!is.na(regained_s)]),
      regained_mean_s = mean(regained_s, na.rm = TRUE),
      off_percent = sqrt(mean(off_percent^2)), .groups = "drop"
    ) |>
    # Reno has no target window.
    mutate(across(
      c(passes, k_mean_s, k_passing_s, regained_mean_s, off_percent),
      \(x) if_else(algorithm == "cubic", x, NA_real_)
    )) |>
    arrange(desc(algorithm), buffer_packets) |>
    write("window")
  write(peak_steps(data$flows), "convergence")
  first_growth(data$flows) |>
    arrange(desc(algorithm), buffer_packets) |>
    write("start")
}
