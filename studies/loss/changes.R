# Changes of goodput with loss, against the same path without loss and against the main set-up.

# Blocks whose path is not that of the main block, with which they are not compared.
other_paths <- c("sensitivity", "fq-codel-fitted", "bdp", "authors", "authors-before")

# Compute each condition's change of goodput in percent against the same algorithm and path without
# loss, with its confidence interval. Conditions have different seeds, so runs are not paired. A
# block without a cell without loss is compared with the main block.
changes_with_loss <- function(replicates) {
  runs <- dplyr::filter(replicates, valid, app == "iperf3", !is.na(goodput_mbit), offloads == "off")
  lossless <- dplyr::filter(runs, loss_percent == 0)
  baseline <- function(key) {
    same <- lossless[lossless$path == key$path & lossless$algorithm == key$algorithm, ]
    of_block <- same[same$block == key$block, ]
    if (nrow(of_block) > 0) of_block else same[same$block == "main", ]
  }
  runs |>
    dplyr::filter(loss_percent > 0, !block %in% other_paths) |>
    dplyr::group_by(block, path, algorithm, loss_percent) |>
    dplyr::group_modify(\(rows, key) {
      change_between(rows, baseline(key))
    }) |>
    dplyr::ungroup() |>
    with_columns(c("measured", "low", "high", "n"))
}

change_between <- function(over, under) {
  if (nrow(under) == 0) {
    return(tibble::tibble(measured = NA_real_, low = NA_real_, high = NA_real_, n = nrow(over)))
  }
  level <- level_of(max(share_of(over), share_of(under)))
  ratio <- ratio_interval(over$goodput_mbit, under$goodput_mbit, paired = FALSE, level)
  percent <- function(ratio) 100 * (as.numeric(ratio) - 1)
  tibble::tibble(
    measured = percent(ratio$value), low = percent(ratio$low), high = percent(ratio$high),
    n = nrow(over)
  )
}

# Compute the same from the source's means.
published_changes <- function(published) {
  published |>
    change_against_baseline() |>
    dplyr::filter(loss_percent > 0) |>
    dplyr::select(path, algorithm, loss_percent, published = change_percent)
}

# Compare every condition of the other set-ups with the main set-up at the same loss.
small_and_other <- function(data) {
  goodputs <- data$summary |>
    dplyr::filter(metric == "goodput_mbit", statistic_over == "replicates")
  main <- goodputs |>
    dplyr::filter(block == "main", app == "iperf3", path == "symmetric") |>
    dplyr::select(algorithm, loss_percent, main_mbit = mean)
  changes <- changes_with_loss(data$replicates) |>
    dplyr::select(
      block, algorithm, loss_percent,
      change_percent = measured, change_low = low, change_high = high
    )
  goodputs |>
    dplyr::filter(block %in% names(variant_labels)) |>
    dplyr::mutate(label = variant_labels[block]) |>
    dplyr::select(
      block, label, algorithm, loss_percent, n,
      goodput_mbit = mean, low = mean_low, high = mean_high
    ) |>
    dplyr::left_join(main, by = c("algorithm", "loss_percent")) |>
    dplyr::left_join(changes, by = c("block", "algorithm", "loss_percent")) |>
    dplyr::arrange(match(block, names(variant_labels)), dplyr::desc(algorithm), loss_percent)
}

variant_labels <- c(
  small = "Less than 1 %", "both-ways" = "Loss both ways", "fq-codel" = "FQ-CoDel on the sender"
)

# Select CUBIC's cells by RTT and offloads, at the losses of that block, including those of the main
# set-up, which is not measured twice.
sensitivity_cells <- function(summary) {
  of <- dplyr::filter(
    summary, algorithm == "cubic", path == "symmetric", app == "iperf3",
    metric == "goodput_mbit", statistic_over == "replicates"
  )
  varied <- dplyr::filter(of, block == "sensitivity")
  main <- dplyr::filter(of, block == "main", loss_percent %in% varied$loss_percent)
  dplyr::bind_rows(varied, main) |>
    dplyr::distinct(rtt_ms, offloads, loss_percent, .keep_all = TRUE)
}
