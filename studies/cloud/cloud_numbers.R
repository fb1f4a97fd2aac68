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
      apart = cloud_apart(metric, published, in_text, video, alone, loss_percent),
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
      apart, app, algorithm, competitor, loss_percent, metric, published, published_runs = 1,
      # Runs at losses of up to 0.01 % repeat each other, except for the packets that the loss
      # drops.
      repeats = ifelse(
        alone & loss_percent <= 0.01 & !metric %in% cloud_counts, paste(place, app, algorithm), NA
      ),
      family = paste(app, sub("competitor_goodput", "goodput", metric))
    )
}

# Say why numbers do not count on the scoreboard; NA if they do.
cloud_apart <- function(metric, published, in_text, video, alone, loss_percent) {
  goodput <- metric == "goodput_mbit"
  dplyr::case_when(
    # This RTT of the text is in none of the logs.
    metric == "srtt_mean_ms" & published == 23.336 ~ "not comparable",
    video & goodput ~ "not comparable",
    # The set-up has the log's RTTs.
    video | metric %in% c("srtt_mean_ms", "srtt_median_ms") ~ "configured",
    # The log's goodputs are those of the text's runs, at the receiver.
    !in_text & grepl("goodput|first_second", metric) ~ "derived",
    # The set-up was fitted to the text's goodputs without loss.
    alone & loss_percent == 0 & goodput ~ "fitted"
  )
}
