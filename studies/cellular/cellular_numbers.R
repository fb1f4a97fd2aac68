# The source's runs, for the scoreboard. Power is that of each run. The table of exercise B
# has copies of earlier runs, which count once.
cellular_numbers <- function(published) {
  measured <- c(
    throughput_mbit = "link_throughput_mbit", queue_delay_p95_ms = "queue_delay_p95_ms",
    signal_delay_p95_ms = "signal_delay_p95_ms", power = "power"
  )
  published |>
    dplyr::distinct(exercise, scheme, throughput_mbit, signal_delay_p95_ms, .keep_all = TRUE) |>
    dplyr::mutate(power = 1000 * throughput_mbit / signal_delay_p95_ms) |>
    tidyr::pivot_longer(
      dplyr::all_of(names(measured)),
      names_to = "metric", values_to = "published", values_drop_na = TRUE
    ) |>
    dplyr::transmute(
      place = paste("exercise", exercise),
      blocks = "source-trace windows aimd aimd-single threshold approaches ewma grid", scheme,
      metric = unname(measured[metric]), published, published_runs = 1,
      apart = ifelse(metric == "power", "derived", NA),
      because = ifelse(metric == "power", "throughput over delay", NA),
      repeats = paste(exercise, scheme)
    )
}
