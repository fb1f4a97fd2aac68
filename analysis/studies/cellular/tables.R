# Every scheme's scores with the published ones, whether the order agrees, and the grid search.
tables <- function(data, write) {
  # Kendall's rank correlation; of fewer than three pairs there is none.
  tau <- function(a, b) {
    known <- !is.na(a) & !is.na(b)
    if (sum(known) < 3) NA_real_ else stats::cor(a[known], b[known], method = "kendall")
  }
  published <- data$published
  write(published, "published")
  replicates <- data$replicates
  scores <- scheme_scores(data$summary)

  replicates |>
    filter(valid) |>
    group_by(replicate, trace_mbit, trace_rate_cv, trace_gap_max_ms, trace_gaps_percent) |>
    summarise(longest_run_s = max(duration_s), .groups = "drop") |>
    arrange(replicate, trace_mbit) |>
    write("traces")

  scores |>
    left_join(
      published |>
        transmute(
          scheme, exercise, published_mbit = throughput_mbit,
          published_signal_ms = signal_delay_p95_ms,
          published_power = coalesce(power, 1000 * throughput_mbit / signal_delay_p95_ms)
        ) |>
        distinct(scheme, .keep_all = TRUE),
      by = "scheme"
    ) |>
    arrange(block, desc(mean_power), scheme, algorithm, queue) |>
    write("schemes")

  # Kendall's tau of the two orders: 1 where they are the same, 0 where they have nothing in common.
  published |>
    mutate(published_power = coalesce(power, 1000 * throughput_mbit / signal_delay_p95_ms)) |>
    filter(!is.na(published_power)) |>
    inner_join(
      scores |> filter(block != "grid") |> distinct(scheme, .keep_all = TRUE), by = "scheme"
    ) |>
    group_by(exercise) |>
    filter(n() >= 3) |>
    summarise(
      schemes = n(),
      tau_power = tau(published_power, mean_power),
      tau_throughput = tau(throughput_mbit, mean_throughput),
      tau_signal_delay = tau(signal_delay_p95_ms, mean_signal_delay),
      .groups = "drop"
    ) |>
    write("ordering")

  # Tuned on the first half of the traces, tried on the second.
  halves <- replicates |>
    filter(valid, grepl("^ewma", scheme)) |>
    mutate(half = ifelse(replicate < max(replicate + 1) / 2, "tuned", "tried")) |>
    group_by(scheme, half) |>
    summarise(power = mean(power), n = n(), .groups = "drop") |>
    tidyr::pivot_wider(names_from = half, values_from = c(power, n))
  halves <- with_columns(halves, c("power_tuned", "power_tried", "n_tuned", "n_tried"))
  halves |>
    mutate(
      alpha = scheme_parameter(scheme, "alpha"), scale = scheme_parameter(scheme, "scale"),
      timeout_ms = scheme_parameter(scheme, "timeout"),
      rank_tuned = rank(-power_tuned), rank_tried = rank(-power_tried)
    ) |>
    arrange(rank_tuned, scheme) |>
    write("grid")
}
