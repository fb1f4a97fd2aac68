# Published and measured tables, other set-ups, and the video.
tables <- function(data, write) {
  published <- data$published
  write(published, "published")
  summary <- data$summary |>
    filter(block == "main")
  goodput <- summary |> filter(app == "iperf3", metric == "goodput_mbit")

  # The source does not name its samples; our statistics use one-second intervals.
  bind_rows(
    goodput |> filter(statistic_over == "seconds") |> mutate(whose = "measured"),
    published |> mutate(whose = "published")
  ) |>
    select(path, algorithm, loss_percent, whose, n, all_of(statistics), reading) |>
    arrange(desc(path), desc(algorithm), loss_percent, desc(whose)) |>
    write("summary")

  changes_with_loss(data$replicates) |>
    filter(block == "main") |>
    full_join(published_changes(published), by = c("path", "algorithm", "loss_percent")) |>
    select(path, algorithm, loss_percent, measured, low, high, n, published) |>
    arrange(desc(path), desc(algorithm), loss_percent) |>
    write("decrease")

  published_ratio <- published |>
    select(algorithm, path, loss_percent, mean) |>
    tidyr::pivot_wider(names_from = algorithm, values_from = mean) |>
    mutate(published = bbr / cubic) |>
    select(path, loss_percent, published)
  data$ratios |>
    filter(block == "main") |>
    select(path, loss_percent, n, measured = mean, low = mean_low, high = mean_high) |>
    left_join(published_ratio, by = c("path", "loss_percent")) |>
    arrange(desc(path), loss_percent) |>
    write("ratio")

  # Less than one percent, loss in both directions, and CUBIC with its host's original qdisc.
  small_and_other(data) |> write("variants")

  # Distance of each set-up of CUBIC from the published curve, as a factor: root mean square of the
  # ratio's logarithm.
  sensitivity_cells(data$summary) |>
    inner_join(
      published |>
        filter(algorithm == "cubic", path == "symmetric") |>
        select(loss_percent, published = mean),
      by = "loss_percent"
    ) |>
    group_by(rtt_ms, offloads) |>
    summarise(
      factor = exp(sqrt(mean(log(mean / published)^2))), n = min(n),
      losses = n_distinct(loss_percent),
      .groups = "drop"
    ) |>
    arrange(factor) |>
    write("distance")

  video_metrics <- c(
    "time_to_first_frame_s", "stall_count", "stall_s", "frames_on_time_percent",
    "frames_delivered_percent", "completion_s", "throughput_mbit"
  )
  summary |>
    filter(app == "ffmpeg", statistic_over == "replicates", metric %in% video_metrics) |>
    select(path, algorithm, loss_percent, n, metric, mean) |>
    by_metric(video_metrics, "mean") |>
    arrange(desc(path), desc(algorithm), loss_percent) |>
    write("video")
}
