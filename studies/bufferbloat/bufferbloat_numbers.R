# The source's downloads and pings, for the scoreboard. The download time is that of the printed
# rate, which has more digits. The idle link was measured three times. Without a long flow in the
# same queue, rate and RTT of the set-up determine the numbers, but not the deviation of the pings.
bufferbloat_numbers <- function(published) {
  published |>
    dplyr::mutate(
      download_s = page_kib / rate_kib_s, deviation_ms = rtt_before_fetch_mdev_ms
    ) |>
    tidyr::pivot_longer(
      c(
        download_s, rtt_before_fetch_min_ms, rtt_before_fetch_ms, rtt_before_fetch_max_ms,
        rtt_before_fetch_mdev_ms
      ),
      names_to = "metric", values_to = "published"
    ) |>
    dplyr::transmute(
      place = paste("item", item),
      blocks = ifelse(queue == "fifo", "published-web", "published-two-queues"),
      algorithm, competitor = ifelse(load == "alone", "none", algorithm),
      buffer_packets = 100, metric, published, published_runs = 1,
      published_sd = ifelse(metric == "rtt_before_fetch_ms", deviation_ms, NA),
      apart = dplyr::case_when(
        metric == "rtt_before_fetch_mdev_ms" ~ NA_character_,
        load == "alone" | queue != "fifo" ~ "configured",
        grepl("_m(in|ax)_ms$", metric) ~ "derived"
      ),
      because = dplyr::case_when(
        apart == "configured" ~ "rate_mbit rtt_ms",
        apart == "derived" ~ "the mean of the same pings"
      ),
      repeats = ifelse(load == "alone", load, NA), family = paste(metric, load)
    )
}
