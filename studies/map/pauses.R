# Pauses of the bottleneck with shallow buffers: the goodput of each algorithm and condition with
# them, without them, and in the paper's replication.

# Summarise each algorithm and condition that was measured with pauses. `unpaused_mbit` is the
# goodput over the same link without them, `paced_mbit` that with fq on the sender and a token
# bucket; NA where they were not measured. `factor` is the goodput over the geometric mean of the
# replication's kernels.
pause_rows <- function(replicates, published) {
  groups <- c("algorithm", grid_axes)
  valid_runs <- replicates |>
    with_columns("retransmits") |>
    dplyr::filter(valid, goodput_mbit > 0, duration_s == 60)
  means <- function(runs) {
    runs |>
      dplyr::group_by(dplyr::across(dplyr::all_of(groups))) |>
      dplyr::summarise(mean_mbit = mean(goodput_mbit), .groups = "drop")
  }
  paced <- dplyr::filter(valid_runs, block %in% c("shallow", "paper", "imc"), loss_percent == 0)
  valid_runs |>
    dplyr::filter(block == paused_block) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(groups))) |>
    dplyr::summarise(
      n = dplyr::n(), level = level_of(dplyr::first(error_share)), mbit = mean(goodput_mbit),
      tibble::as_tibble(mean_interval(goodput_mbit, level)), retransmits = mean(retransmits),
      .groups = "drop"
    ) |>
    with_columns(c("low", "high")) |>
    dplyr::select(-level) |>
    dplyr::left_join(means(dplyr::filter(valid_runs, block == link_block)), by = groups) |>
    dplyr::rename(unpaused_mbit = mean_mbit) |>
    dplyr::left_join(means(paced), by = groups) |>
    dplyr::rename(paced_mbit = mean_mbit) |>
    dplyr::left_join(
      dplyr::filter(replication_rows(published), to_s == 60) |>
        dplyr::select(-from_s, -to_s, -replication_again_first_s),
      by = groups
    ) |>
    dplyr::left_join(replication_retransmits(published), by = groups) |>
    dplyr::mutate(factor = mbit / sqrt(replication_least_mbit * replication_most_mbit))
}

# Get the replication's retransmissions per run of 60 s, as the mean of its kernels.
replication_retransmits <- function(published) {
  published |>
    with_columns(c("cubic_retransmits", "bbr_retransmits")) |>
    dplyr::filter(startsWith(source, "datta2023"), is.na(from_s)) |>
    tidyr::pivot_longer(
      c(cubic_retransmits, bbr_retransmits),
      names_to = "algorithm", names_pattern = "(.*)_retransmits", values_to = "retransmits"
    ) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(c("algorithm", grid_axes)))) |>
    dplyr::summarise(replication_retransmits = mean(retransmits), .groups = "drop")
}

host_labels <- c(paced_mbit = "fq, bucket", unpaused_mbit = "no fq", mbit = "no fq, pauses")

# List CUBIC's goodputs with and without pauses in the conditions of the replication, one row for
# each host; none if there are too few conditions for a figure.
pause_points <- function(replicates, published) {
  points <- pause_rows(replicates, published) |>
    dplyr::filter(algorithm == "cubic", !is.na(replication_most_mbit)) |>
    dplyr::mutate(replication_mbit = sqrt(replication_least_mbit * replication_most_mbit)) |>
    dplyr::select(
      rtt_ms, rate_mbit, replication_mbit, dplyr::all_of(names(host_labels)), low, high
    ) |>
    tidyr::pivot_longer(
      dplyr::all_of(names(host_labels)),
      names_to = "measured", values_to = "goodput_mbit", values_drop_na = TRUE
    ) |>
    dplyr::mutate(
      host = factor(host_labels[measured], host_labels),
      low = ifelse(measured == "mbit", low, NA), high = ifelse(measured == "mbit", high, NA)
    )
  if (dplyr::n_distinct(points$rtt_ms, points$rate_mbit) < least_conditions) points[0, ] else points
}
