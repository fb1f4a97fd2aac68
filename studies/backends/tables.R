# Results of other backends over those of the virtual backend: goodput and other metrics of a flow,
# numbers of replicates, and effects of the machine on replicates in real time.
tables <- function(data, write) {
  replicates <- data$replicates |>
    with_columns(c(
      backend_metrics, "machine_busy", "machine_late_p99_ms", "machine_rtt_excess_p95_ms",
      "machine_rate_share"
    ))
  cell_order <- function(rows) arrange(rows, block, desc(algorithm), loss_percent, buffer_packets)
  shown <- c(
    "block", "algorithm", "rate_mbit", "rtt_ms", "loss_percent", "buffer_packets", "competitor",
    "n", "mean_virtual", "mean_value", "ratio", "low", "high"
  )
  summarise_backend_ratios(backend_ratios(replicates)) |>
    select(all_of(shown)) |>
    cell_order() |>
    write("ratio")
  lapply(backend_metrics, function(metric) {
    summarise_backend_ratios(backend_ratios(replicates, metric)) |>
      select(all_of(shown)) |>
      mutate(metric = metric, .after = block)
  }) |>
    bind_rows() |>
    filter(block %in% real_time_blocks) |>
    mutate(number = match(metric, backend_metrics)) |>
    arrange(number) |>
    cell_order() |>
    select(-number) |>
    write("dynamics")
  replicates |>
    group_by(block) |>
    summarise(
      cells = n_distinct(cell), replicates = n(), n_valid = sum(valid),
      rtt_low_ms = min_present(rtt_measured_ms), rtt_high_ms = max_present(rtt_measured_ms),
      unexplained_packets = sum(unexplained_packets, na.rm = TRUE),
      busy_percent = 100 * max_present(machine_busy[valid]),
      late_p99_ms = max_present(machine_late_p99_ms[valid]),
      rtt_excess_p95_ms = max_present(machine_rtt_excess_p95_ms[valid]),
      rate_low_percent = 100 * min_present(machine_rate_share[valid]),
      rate_high_percent = 100 * max_present(machine_rate_share[valid]),
      .groups = "drop"
    ) |>
    arrange(match(block, names(backend_labels))) |>
    write("machines")
}
