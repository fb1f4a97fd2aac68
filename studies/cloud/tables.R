# Published and measured numbers, and the effect of the source's set-up.
tables <- function(data, write) {
  published <- data$published
  write(published, "published")
  summary <- data$summary |>
    filter(statistic_over == "replicates") |>
    mutate(setup = label_setups(sender_delay_ms)) |>
    select(
      block, setup, algorithm, competitor, app, loss_percent, buffer_packets, receive_buffer,
      offloads, duration_s, metric, n, mean, low = mean_low, high = mean_high
    )
  of_metric <- function(name) summary |> filter(metric == name) |> select(-metric)
  # Numbers in the source's text, and numbers of the same runs in the authors' log.
  in_text <- published |> filter(from == "text", app == "iperf3")
  in_log <- published |> filter(from == "repository", app == "iperf3")

  of_metric("goodput_mbit") |>
    filter(block %in% c("published", "routers")) |>
    left_join(
      in_text |>
        filter(competitor == "none") |>
        select(algorithm, loss_percent, published_mbit = goodput_mbit),
      by = c("algorithm", "loss_percent")
    ) |>
    left_join(
      in_log |>
        filter(competitor == "none") |>
        select(algorithm, loss_percent, log_mbit = goodput_mbit),
      by = c("algorithm", "loss_percent")
    ) |>
    left_join(
      data$ratios |>
        filter(app == "iperf3") |>
        transmute(
          block, algorithm = "bbr", loss_percent, ratio = mean, ratio_low = mean_low,
          ratio_high = mean_high
        ),
      by = c("block", "algorithm", "loss_percent")
    ) |>
    arrange(setup, desc(algorithm), loss_percent) |>
    write("goodput")

  # The rate is window over RTT: compare both with the source's.
  flow_metrics <- c(
    "goodput_mbit", "cwnd_median_packets", "srtt_mean_ms", "srtt_std_ms", "srtt_median_ms",
    "rwnd_limited_percent", "retransmits", "retransmits_first_second", "ssthresh_changes"
  )
  ours <- summary |>
    filter(app == "iperf3", competitor == "none", metric %in% flow_metrics) |>
    mutate(step = label_steps(block, receive_buffer, offloads)) |>
    filter(!is.na(step)) |>
    select(step, algorithm, loss_percent, n, metric, mean) |>
    by_metric(flow_metrics, "mean")
  in_log |>
    filter(competitor == "none") |>
    mutate(step = label_steps("log", "", ""), n = 1) |>
    with_columns(flow_metrics) |>
    select(all_of(names(ours))) |>
    bind_rows(ours) |>
    mutate(
      window_over_rtt_mbit = cwnd_median_packets * payload_bytes * 8 / 1e3 / srtt_mean_ms
    ) |>
    arrange(desc(algorithm), loss_percent, step) |>
    write("flow")

  # As logged, the algorithms have different delays, so there is no ratio.
  data$ratios |>
    filter(app == "iperf3", loss_percent == 0, !block %in% c("logged", "published-bucket")) |>
    mutate(
      setup = label_setups(sender_delay_ms), step = label_steps(block, receive_buffer, offloads)
    ) |>
    select(
      block, setup, step, buffer_packets, receive_buffer, offloads, duration_s, n,
      ratio = mean, low = mean_low, high = mean_high
    ) |>
    arrange(duration_s, step, setup, buffer_packets, block) |>
    write("gap")

  data$replicates |>
    filter(block %in% c("published", "published-bucket")) |>
    shaper_ratios("goodput_mbit") |>
    select(algorithm, loss_percent, n, with_bucket, with_link, ratio, low, high) |>
    arrange(desc(algorithm)) |>
    write("bucket")

  of_metric("jain_index") |>
    select(block, setup, algorithm, competitor, n, jain_index = mean, low, high) |>
    left_join(shares_of_two(data$replicates), by = c("block", "algorithm", "competitor")) |>
    left_join(
      in_text |>
        filter(competitor != "none") |>
        select(
          algorithm, competitor, published_first_mbit = goodput_mbit,
          published_second_mbit = competitor_goodput_mbit
        ),
      by = c("algorithm", "competitor")
    ) |>
    left_join(
      in_log |>
        filter(competitor != "none") |>
        select(algorithm, competitor, log_retransmits = retransmits),
      by = c("algorithm", "competitor")
    ) |>
    mutate(
      published_jain = jain(published_first_mbit, published_second_mbit)
    ) |>
    arrange(setup, desc(algorithm), desc(competitor)) |>
    write("fairness")

  video_metrics <- c(
    "throughput_mbit", "completion_s", "srtt_mean_ms", "frames_on_time_percent",
    "cwnd_median_packets"
  )
  summary |>
    filter(app == "ffmpeg", metric %in% video_metrics) |>
    select(block, setup, algorithm, loss_percent, duration_s, n, metric, mean) |>
    by_metric(video_metrics, "mean") |>
    arrange(setup, desc(algorithm), loss_percent) |>
    write("video")
}

# Average the goodputs and retransmissions of two flows. Which of them starts first is drawn: flows
# of the same algorithm are ordered by goodput in each run.
shares_of_two <- function(replicates) {
  replicates |>
    with_columns(c("competitor_goodput_mbit", "retransmits", "competitor_retransmits")) |>
    filter(valid, competitor != "none", app == "iperf3") |>
    mutate(
      swapped = algorithm == competitor & competitor_goodput_mbit > goodput_mbit,
      other_mbit = ifelse(swapped, goodput_mbit, competitor_goodput_mbit),
      own_mbit = goodput_mbit + competitor_goodput_mbit - other_mbit,
      other = ifelse(swapped, retransmits, competitor_retransmits),
      own = retransmits + competitor_retransmits - other
    ) |>
    group_by(block, algorithm, competitor) |>
    summarise(
      first_mbit = mean(own_mbit), second_mbit = mean(other_mbit),
      second_min_mbit = min(other_mbit), second_max_mbit = max(other_mbit),
      retransmits = mean(own), second_retransmits = mean(other), .groups = "drop"
    )
}
