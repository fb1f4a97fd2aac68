# The paper, its replication on two kernels, and losslab as testbeds of the same grid without random
# loss: in how many conditions two of them have the same winner, and how far their gains differ.

testbed_levels <- c("cao2019", "datta2023 (Linux 4.15)", "datta2023 (Linux 5.15)", "ours")
# Smallest gain, as a share, from which its sign is compared.
decisive_gain <- 0.1
# Smallest ratio of a large gain.
large_ratio <- 1.5
grid_axes <- c("rtt_ms", "rate_mbit", "buffer_packets")
# Minimum number of conditions for a figure.
least_conditions <- 6

# Return the published conditions of the paper and its replication, with `ratio`, BBR's goodput over
# that of CUBIC.
of_testbeds <- function(published) {
  published |>
    dplyr::filter(source %in% testbed_levels, is.na(from_s)) |>
    dplyr::mutate(ratio = dplyr::coalesce(1 + gain_percent / 100, bbr_mbit / cubic_mbit))
}

# Return our conditions without random loss from gains().
without_loss <- function(measured) {
  dplyr::filter(of_map_itself(measured), block != "published")
}

# Compute the skill of predicted ratios: one minus the mean square of their logarithmic error over
# that of the trivial prediction, no gain. 1 is perfect; 0 is no better than the trivial prediction.
skill_of <- function(predicted, true) 1 - sum(log(predicted / true)^2) / sum(log(true)^2)

# Compare the gains of each two testbeds, per buffer, over the conditions that both have.
testbed_pairs <- function(published, ours) {
  ratios <- dplyr::bind_rows(published, dplyr::mutate(ours, source = "ours")) |>
    dplyr::select(dplyr::all_of(c("source", grid_axes, "ratio"))) |>
    dplyr::mutate(source = factor(source, testbed_levels))
  dplyr::inner_join(
    ratios, ratios,
    by = grid_axes, suffix = c("", "_against"), relationship = "many-to-many"
  ) |>
    dplyr::filter(as.integer(source) > as.integer(source_against)) |>
    dplyr::mutate(
      decisive = abs(ratio_against - 1) >= decisive_gain,
      apart = pmax(ratio / ratio_against, ratio_against / ratio)
    ) |>
    dplyr::group_by(source, against = source_against, buffer_packets) |>
    dplyr::summarise(
      conditions = dplyr::n(), decisive_conditions = sum(decisive),
      same_sign = sum((ratio > 1) == (ratio_against > 1) & decisive),
      median_factor = stats::median(apart), largest_factor = max(apart),
      skill = skill_of(ratio, ratio_against), large = sum(ratio_against >= large_ratio),
      large_smaller = sum(ratio_against >= large_ratio & ratio < ratio_against), .groups = "drop"
    ) |>
    dplyr::rename(decisive = decisive_conditions)
}
