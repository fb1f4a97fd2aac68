# Metrics of the source's numbers.
cloud_means <- c(
  "goodput_mbit", "competitor_goodput_mbit", "srtt_mean_ms", "srtt_std_ms", "srtt_median_ms",
  "cwnd_median_packets", "completion_s"
)
# losslab does not count a competitor's retransmissions in the first second.
cloud_counts <- c(
  "retransmits", "competitor_retransmits", "retransmits_first_second", "rwnd_limited_percent"
)

# The numbers of the source's text and log, for the scoreboard.
cloud_numbers <- function(published) {
  published |>
    # That run of the log had no added delay.
    dplyr::filter(is.na(srtt_median_ms) | srtt_median_ms > 1) |>
    tidyr::pivot_longer(
      dplyr::all_of(c(cloud_means, cloud_counts)),
      names_to = "metric", values_to = "published", values_drop_na = TRUE
    ) |>
    dplyr::mutate(
      in_text = from == "text", video = app == "ffmpeg", alone = competitor == "none",
      cloud_apart(algorithm, metric, published, in_text, video, alone, loss_percent),
      # The metric of ours that a video's goodput stands for.
      metric = ifelse(video & metric == "goodput_mbit", "throughput_mbit", metric)
    ) |>
    dplyr::transmute(
      place = ifelse(in_text, paste("section", section), "log"),
      # One flow is compared in the set-up as logged.
      blocks = dplyr::case_when(
        video ~ "published-video",
        !alone ~ "published-fairness",
        in_text ~ "logged published",
        TRUE ~ "logged"
      ),
      apart, because, app, algorithm, competitor, loss_percent, metric, published,
      published_runs = 1,
      # Runs at losses of up to 0.01 % repeat each other, except for the packets that the loss
      # drops.
      repeats = ifelse(
        alone & loss_percent <= 0.01 & !metric %in% cloud_counts, paste(place, app, algorithm), NA
      ),
      family = paste(app, sub("competitor_goodput", "goodput", metric))
    )
}

# Say which numbers do not count on the scoreboard (`apart`), and why (`because`); NA if they do. A
# video's window and the deviation of its RTT count: no axis has them.
cloud_apart <- function(algorithm, metric, published, in_text, video, alone, loss_percent) {
  goodput <- metric == "goodput_mbit"
  because <- dplyr::case_when(
    metric == "srtt_mean_ms" & published == 23.336 ~ "this RTT of the text is in none of the logs",
    video & goodput ~ "the source's is the encoder's own report",
    metric %in% c("srtt_mean_ms", "srtt_median_ms") ~ "rtt_ms sender_delay_ms",
    video & metric == "completion_s" ~ "duration_s",
    !in_text & grepl("goodput", metric) ~ "the text's goodput of the same run",
    # A loss of at most 0.01 % drops a few packets in five seconds, so these runs repeat those
    # without loss, to which the buffer was fitted.
    alone & goodput & algorithm == "cubic" & loss_percent <= 0.01 ~ "buffer_packets",
    # As logged, the receiver's window limits BBR at any of these losses. As published, the buffer
    # is fitted to BBR without loss, and the rate follows from the fastest flow.
    alone & goodput & algorithm == "bbr" ~ "receive_buffer rate_mbit buffer_packets"
  )
  apart <- dplyr::case_when(
    is.na(because) ~ NA_character_,
    because == "the text's goodput of the same run" ~ "derived",
    because %in% c("rtt_ms sender_delay_ms", "duration_s") ~ "configured",
    because == "buffer_packets" ~ "fitted",
    goodput & !video ~ "configured",
    TRUE ~ "not comparable"
  )
  tibble::tibble(apart, because)
}
