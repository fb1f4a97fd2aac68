# Scores of every scheme, measured and published, agreement of the rankings, and the grid search.
tables <- function(data, write) {
  # Kendall's rank correlation; NA for fewer than three pairs.
  tau <- function(a, b) {
    known <- !is.na(a) & !is.na(b)
    if (sum(known) < 3) NA_real_ else stats::cor(a[known], b[known], method = "kendall")
  }
  published <- data$published
  write(published, "published")
  replicates <- filter(data$replicates, !block %in% single_trace_blocks)
  scores <- scheme_scores(data$summary)
  # A scheme in two blocks is measured once.
  once <- scores |>
    arrange(block == "grid") |>
    distinct(scheme, .keep_all = TRUE)

  replicates |>
    filter(valid) |>
    group_by(replicate, trace_mbit, trace_rate_cv, trace_gap_max_ms, trace_gaps_percent) |>
    summarise(longest_run_s = max(duration_s), .groups = "drop") |>
    arrange(replicate, trace_mbit) |>
    write("traces")

  scores |>
    left_join(source_scores(published), by = "scheme") |>
    arrange(block, desc(mean_power), scheme, algorithm, queue) |>
    write("schemes")

  # The source's own trace, and one that nobody tuned to.
  other <- scheme_scores(data$summary, "other-trace") |>
    select(scheme, other_power = mean_power, other_low = low_power, other_high = high_power)
  scheme_scores(data$summary, "source-trace") |>
    left_join(source_scores(published), by = "scheme") |>
    left_join(other, by = "scheme") |>
    arrange(desc(mean_power), scheme) |>
    write("own")

  # The source's AIMD table by index; rows 7 and 16 have the same scheme.
  published |>
    filter(exercise == "B", part == "table") |>
    transmute(
      index, scheme,
      rtt_gain = scheme_parameter(scheme, "rtt_gain"), add = scheme_parameter(scheme, "add"),
      multiply = scheme_parameter(scheme, "multiply"), published_mbit = throughput_mbit,
      published_signal_ms = signal_delay_p95_ms,
      published_quotient = 1000 * throughput_mbit / signal_delay_p95_ms
    ) |>
    left_join(select(once, -c(block, algorithm, queue, label)), by = "scheme") |>
    arrange(index) |>
    write("aimd")

  # Spread of the source's repeated runs, and of our runs on other traces.
  theirs <- without_copies(source_runs(published)) |>
    group_by(scheme) |>
    filter(n() > 1) |>
    summarise(
      published_runs = n(), published_power = mean(quotient),
      published_spread_percent = spread_percent(quotient), .groups = "drop"
    )
  replicates |>
    filter(
      valid, !is.na(power),
      block != "grid" | !scheme %in% scores$scheme[scores$block != "grid"]
    ) |>
    group_by(scheme) |>
    summarise(
      traces = n(), power = mean(power_of_run(link_throughput_mbit, signal_delay_p95_ms)),
      spread_percent = spread_percent(power_of_run(link_throughput_mbit, signal_delay_p95_ms)),
      .groups = "drop"
    ) |>
    inner_join(theirs, by = "scheme") |>
    arrange(match(scheme, published$scheme)) |>
    write("repeats")

  # Kendall's tau of the two rankings: 1 if they are equal, 0 if they are unrelated.
  source_runs(published) |>
    mutate(what = parts_in_words(exercise, part)) |>
    filter(!is.na(what)) |>
    group_by(what, scheme) |>
    summarise(
      across(c(quotient, throughput_mbit, signal_delay_p95_ms), mean),
      .groups = "drop"
    ) |>
    inner_join(once, by = "scheme") |>
    group_by(what) |>
    filter(n() >= 3) |>
    summarise(
      schemes = n(), tau_power = tau(quotient, mean_power),
      tau_throughput = tau(throughput_mbit, mean_throughput),
      tau_signal_delay = tau(signal_delay_p95_ms, mean_signal_delay),
      best_theirs = scheme[which.max(quotient)], best_ours = scheme[which.max(mean_power)],
      .groups = "drop"
    ) |>
    rename(part = what) |>
    write("ordering")

  # Tune on the first half of the traces, test on the second.
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
      rank_tuned = rank(-power_tuned, na.last = "keep"),
      rank_tried = rank(-power_tried, na.last = "keep")
    ) |>
    left_join(
      select(source_scores(published), scheme, published_quotient, published_runs),
      by = "scheme"
    ) |>
    arrange(rank_tuned, scheme) |>
    write("grid")
}
