# What loss takes away: changes against the same path without loss, and against the main set-up.

# Per condition the change of goodput in percent: the geometric mean over pairs of runs with the same
# number, with its interval.
changes_with_loss <- function(replicates) {
  shared <- c("block", "path", "app", "algorithm", "loss_direction", "queue")
  runs <- goodput_runs(replicates)
  baseline <- runs |>
    dplyr::filter(loss_percent == 0) |>
    dplyr::select(dplyr::all_of(shared), replicate, baseline = goodput_mbit)
  runs |>
    dplyr::filter(loss_percent > 0) |>
    dplyr::inner_join(baseline, by = c(shared, "replicate")) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(c(shared, "loss_percent")))) |>
    dplyr::summarise(change_between(goodput_mbit, baseline), .groups = "drop") |>
    with_columns(c("measured", "low", "high", "n"))
}

goodput_runs <- function(replicates) {
  dplyr::filter(replicates, valid, app == "iperf3", !is.na(goodput_mbit))
}

change_between <- function(over, under) {
  found <- ratio_interval(over, under)
  percent <- function(ratio) 100 * (ratio - 1)
  tibble::tibble(
    measured = percent(found$value), low = percent(found$low), high = percent(found$high),
    n = length(over)
  )
}

# The same of the source's means.
published_changes <- function(published) {
  published |>
    change_against_baseline() |>
    dplyr::filter(loss_percent > 0) |>
    dplyr::select(path, algorithm, loss_percent, published = change_percent)
}

# Every condition outside the main block beside what it is a variant of: the same loss on data alone,
# both algorithms behind the same queue.
small_and_other <- function(data) {
  cells <- data$summary |>
    dplyr::filter(
      block %in% names(variant_labels), metric == "goodput_mbit", statistic_over == "replicates"
    ) |>
    dplyr::mutate(variant = variant_labels[block]) |>
    dplyr::select(
      block, variant, algorithm, loss_percent, n,
      goodput_mbit = mean, low = mean_low, high = mean_high
    )
  main <- data$summary |>
    dplyr::filter(
      block == "main", app == "iperf3", path == "symmetric", metric == "goodput_mbit",
      statistic_over == "replicates"
    ) |>
    dplyr::select(algorithm, loss_percent, main_mbit = mean)
  changes <- changes_with_loss(data$replicates) |>
    dplyr::select(
      block, algorithm, loss_percent,
      change_percent = measured, change_low = low, change_high = high
    )
  cells |>
    dplyr::left_join(main, by = c("algorithm", "loss_percent")) |>
    dplyr::left_join(changes, by = c("block", "algorithm", "loss_percent")) |>
    dplyr::arrange(match(block, names(variant_labels)), dplyr::desc(algorithm), loss_percent)
}

variant_labels <- c(
  small = "Less than 1 %", both = "Loss in both directions", "fq-codel" = "FQ-CoDel on the sender"
)
