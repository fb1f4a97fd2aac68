# The source's tables with ours beside them: summary, decrease, ratio, video.
tables <- function(data, write) {
  published <- data$published
  write(published, "published")
  summary <- data$summary |>
    filter(block == "main")
  goodput <- summary |> filter(app == "iperf3", metric == "goodput_mbit")

  # The source's statistics are over one-second intervals, and so are ours here.
  bind_rows(
    goodput |> filter(statistic_over == "seconds") |> mutate(whose = "measured"),
    published |> mutate(whose = "published")
  ) |>
    select(path, algorithm, loss_percent, whose, all_of(statistics)) |>
    arrange(desc(path), desc(algorithm), loss_percent, desc(whose)) |>
    write("summary")

  changes <- bind_rows(
    measured = goodput |> filter(statistic_over == "replicates") |> change_against_baseline(),
    published = published |> change_against_baseline(),
    .id = "whose"
  )
  changes |>
    filter(loss_percent > 0) |>
    select(path, algorithm, loss_percent, whose, change_percent) |>
    tidyr::pivot_wider(names_from = whose, values_from = change_percent) |>
    with_columns(c("measured", "published")) |>
    relocate(measured, .before = published) |>
    arrange(desc(path), desc(algorithm), loss_percent) |>
    write("decrease")

  published_ratio <- published |>
    select(algorithm, path, loss_percent, mean) |>
    tidyr::pivot_wider(names_from = algorithm, values_from = mean) |>
    mutate(published = bbr / cubic) |>
    select(path, loss_percent, published)
  data$ratios |>
    filter(block == "main") |>
    select(path, loss_percent, measured = mean, low = mean_low, high = mean_high) |>
    left_join(published_ratio, by = c("path", "loss_percent")) |>
    arrange(desc(path), loss_percent) |>
    write("ratio")

  # How far each set-up of CUBIC is from the published curve, as a factor: root mean square of the
  # ratio's logarithm.
  data$summary |>
    filter(block == "sensitivity", metric == "goodput_mbit", statistic_over == "replicates") |>
    inner_join(
      published |>
        filter(algorithm == "cubic", path == "symmetric") |>
        select(loss_percent, published = mean),
      by = "loss_percent"
    ) |>
    group_by(rtt_ms, offloads) |>
    summarise(factor = exp(sqrt(mean(log(mean / published)^2))), .groups = "drop") |>
    arrange(factor) |>
    write("distance")

  video_metrics <- c(
    "time_to_first_frame_s", "stall_count", "stall_s", "frames_on_time_percent",
    "frames_delivered_percent", "completion_s", "throughput_mbit"
  )
  summary |>
    filter(app == "ffmpeg", statistic_over == "replicates", metric %in% video_metrics) |>
    select(path, algorithm, loss_percent, metric, mean) |>
    by_metric(video_metrics, "mean") |>
    arrange(desc(path), desc(algorithm), loss_percent) |>
    write("video")
}
