# The source's numbers with ours beside them, and what its set-up does to them.
tables <- function(data, write) {
  published <- data$published
  write(published, "published")
  summary <- data$summary |>
    filter(statistic_over == "replicates") |>
    mutate(setup = label_setups(sender_delay_ms)) |>
    select(
      block, setup, algorithm, competitor, app, loss_percent, buffer_packets, duration_s, metric, n,
      mean, low = mean_low, high = mean_high
    )
  of_metric <- function(name) summary |> filter(metric == name) |> select(-metric)

  of_metric("goodput_mbit") |>
    filter(block %in% c("published", "routers")) |>
    left_join(
      of_metric("rtt_loaded_ms") |> select(block, algorithm, loss_percent, rtt_loaded_ms = mean),
      by = c("block", "algorithm", "loss_percent")
    ) |>
    left_join(
      of_metric("retransmits") |> select(block, algorithm, loss_percent, retransmits = mean),
      by = c("block", "algorithm", "loss_percent")
    ) |>
    left_join(
      published |>
        filter(app == "iperf3", competitor == "none") |>
        select(
          algorithm, loss_percent, published_mbit = goodput_mbit, published_rtt_ms = rtt_loaded_ms
        ),
      by = c("algorithm", "loss_percent")
    ) |>
    arrange(setup, desc(algorithm), loss_percent) |>
    write("goodput")

  data$ratios |>
    filter(app == "iperf3", loss_percent == 0) |>
    mutate(setup = label_setups(sender_delay_ms)) |>
    select(
      block, setup, buffer_packets, duration_s, n, ratio = mean, low = mean_low, high = mean_high
    ) |>
    arrange(duration_s, setup, buffer_packets, block) |>
    write("gap")

  of_metric("jain_index") |>
    select(block, setup, algorithm, competitor, n, jain_index = mean, low, high) |>
    left_join(
      of_metric("goodput_mbit") |> select(block, algorithm, competitor, first_mbit = mean),
      by = c("block", "algorithm", "competitor")
    ) |>
    left_join(
      of_metric("competitor_goodput_mbit") |>
        select(block, algorithm, competitor, second_mbit = mean),
      by = c("block", "algorithm", "competitor")
    ) |>
    left_join(
      published |>
        filter(competitor != "none") |>
        select(
          algorithm, competitor, published_first_mbit = goodput_mbit,
          published_second_mbit = competitor_goodput_mbit
        ),
      by = c("algorithm", "competitor")
    ) |>
    arrange(setup, desc(algorithm), desc(competitor)) |>
    write("fairness")

  summary |>
    filter(
      app == "ffmpeg",
      metric %in% c("throughput_mbit", "completion_s", "rtt_loaded_ms", "frames_on_time_percent")
    ) |>
    select(block, setup, algorithm, loss_percent, n, metric, mean) |>
    by_metric(
      c("throughput_mbit", "completion_s", "rtt_loaded_ms", "frames_on_time_percent"), "mean"
    ) |>
    arrange(setup, desc(algorithm), loss_percent) |>
    write("video")
}
