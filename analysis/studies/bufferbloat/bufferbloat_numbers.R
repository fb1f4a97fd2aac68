# The source's downloads and pings, for the agreement factors. The download time is that of the
# printed rate, which has more digits. The idle link was measured three times.
bufferbloat_numbers <- function(published) {
  published |>
    dplyr::mutate(
      rounding = ifelse(rate_kib_s >= 100, 0.5, 0.05) / rate_kib_s,
      download_s = page_kib / rate_kib_s
    ) |>
    tidyr::pivot_longer(
      c(
        download_s, rtt_before_fetch_min_ms, rtt_before_fetch_ms, rtt_before_fetch_max_ms
      ),
      names_to = "metric", values_to = "published"
    ) |>
    dplyr::transmute(
      place = paste("item", item),
      blocks = ifelse(queue == "fifo", "published-web", "published-two-queues"),
      algorithm, competitor = ifelse(load == "alone", "none", algorithm),
      buffer_packets = 100, metric, published, published_runs = 1,
      repeats = ifelse(load == "alone", load, NA), family = paste(metric, load),
      rounding = ifelse(metric == "download_s", rounding, NA)
    )
}
