# The numbers of the source's text and log, for the scoreboard. Its runs at losses of up to 0.01 %
# repeat each other, except for the packets that the loss itself drops. One flow is compared in the
# set-up as logged: the log's RTTs are configured there, and the text's goodputs without loss
# fitted. The log's goodputs are of the text's runs, at the receiver.
cloud_numbers <- function(published) {
  # losslab does not count a competitor's retransmissions in the first second.
  counts <- c(
    "retransmits", "competitor_retransmits", "retransmits_first_second", "rwnd_limited_percent"
  )
  metrics <- c(
    "goodput_mbit", "competitor_goodput_mbit", "srtt_mean_ms", "srtt_std_ms", "srtt_median_ms",
    "cwnd_median_packets", "completion_s", counts
  )
  published |>
    # That run of the log had no added delay.
    dplyr::filter(is.na(srtt_median_ms) | srtt_median_ms > 1) |>
    tidyr::pivot_longer(
      dplyr::all_of(metrics),
      names_to = "metric", values_to = "published", values_drop_na = TRUE
    ) |>
    dplyr::transmute(
      place = ifelse(from == "text", paste("section", section), "log"),
      blocks = dplyr::case_when(
        app == "ffmpeg" ~ "published-video", competitor != "none" ~ "published-fairness",
        from != "text" ~ "logged", TRUE ~ "logged published"
      ),
      apart = dplyr::case_when(
        metric == "srtt_mean_ms" & published == 23.336 ~ "not comparable",
        app == "ffmpeg" & metric == "goodput_mbit" ~ "not comparable",
        app == "ffmpeg" | metric %in% c("srtt_mean_ms", "srtt_median_ms") ~ "configured",
        from != "text" & grepl("goodput|first_second", metric) ~ "derived",
        competitor == "none" & loss_percent == 0 & metric == "goodput_mbit" ~ "fitted"
      ),
      app, algorithm, competitor, loss_percent,
      metric = ifelse(app == "ffmpeg" & metric == "goodput_mbit", "throughput_mbit", metric),
      published, published_runs = 1,
      repeats = ifelse(
        competitor == "none" & loss_percent <= 0.01 & !metric %in% counts,
        paste(place, app, algorithm), NA
      ),
      family = paste(app, sub("competitor_goodput", "goodput", metric))
    )
}
