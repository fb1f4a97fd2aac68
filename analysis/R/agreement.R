# False alarms between equal conditions, and the sensitivity to the warm-up and length of the runs.

# Number of random splits of a cell's runs into halves, with a fixed seed.
agreement_splits <- 100

# Metrics to compare in a cell: the first of these that its runs have.
agreement_metrics <- c("goodput_mbit", "download_s", "power", "throughput_mbit")

# Count, for each cell with enough runs, the splits into halves whose ratio differs significantly
# from one. Cells whose runs are all equal are omitted.
seed_disagreements <- function(replicates, splits = agreement_splits, seed = 1) {
  set.seed(seed, kind = "Mersenne-Twister", sample.kind = "Rejection")
  counted <- replicates |>
    dplyr::filter(valid) |>
    with_first_metric(agreement_metrics) |>
    dplyr::filter(value > 0) |>
    dplyr::arrange(study, cell, replicate)
  cells <- split(counted, factor(paste(counted$study, counted$cell)))
  dplyr::bind_rows(lapply(cells, function(rows) {
    values <- rows$value
    half <- length(values) %/% 2
    # Each half must have enough runs for a confidence interval.
    if (length(values) < 2 * min_runs || stats::sd(values) < 1e-9 * mean(values)) {
      return(NULL)
    }
    apart <- vapply(seq_len(splits), function(draw) {
      first <- sample(length(values), half)
      differ(ratio_interval(values[first], values[-first], paired = FALSE))
    }, TRUE)
    tibble::tibble(
      study = rows$study[1], cell = rows$cell[1], n = length(values), share = mean(apart)
    )
  }))
}

# Add the column `value`: the first of `agreement_metrics` that a row has.
with_first_metric <- function(rows, columns) {
  rows$value <- do.call(dplyr::coalesce, unname(as.list(rows[columns])))
  rows
}

# Test whether the confidence interval of a ratio excludes one.
differ <- function(interval) isTRUE(interval$low > 1) || isTRUE(interval$high < 1)

# Compute the share of false alarms of each study and of all, with its confidence interval over
# cells.
summarise_disagreements <- function(disagreements) {
  summary_row <- function(name, rows) {
    interval <- mean_interval(rows$share)
    tibble::tibble(
      study = name, cells = nrow(rows), percent = 100 * mean(rows$share),
      low = max(0, 100 * interval$low), high = 100 * interval$high
    )
  }
  if (nrow(disagreements) == 0) {
    return(disagreements)
  }
  by_study <- lapply(unique(disagreements$study), function(name) {
    summary_row(name, disagreements[disagreements$study == name, ])
  })
  dplyr::bind_rows(c(by_study, list(summary_row("all", disagreements))))
}

path_columns <- c("algorithm", "loss_percent", "n", "ratio", "low", "high", "apart")

# Compute the goodput ratio of the asymmetric to the symmetric path, which differ only in a router.
path_agreement <- function(replicates) {
  # Without the study, a campaign has neither rows nor columns.
  if (nrow(replicates) == 0) {
    return(with_columns(tibble::tibble(), path_columns))
  }
  shared <- setdiff(condition_columns, "path")
  counted <- replicates |>
    dplyr::filter(valid, block == "main", app == "iperf3") |>
    dplyr::arrange(replicate)
  # The conditions that both paths have.
  conditions <- counted |>
    dplyr::distinct(dplyr::across(dplyr::all_of(c("path", shared)))) |>
    dplyr::count(dplyr::across(dplyr::all_of(shared))) |>
    dplyr::filter(n == 2)
  ratios <- lapply(seq_len(nrow(conditions)), function(row) {
    condition <- conditions[row, shared]
    path_ratio(condition, dplyr::inner_join(counted, condition, by = shared))
  })
  with_columns(dplyr::bind_rows(ratios), path_columns)
}

# Compute the goodput ratio of the two paths from the runs of one condition.
path_ratio <- function(condition, runs) {
  asymmetric <- runs$goodput_mbit[runs$path == "asymmetric"]
  symmetric <- runs$goodput_mbit[runs$path == "symmetric"]
  level <- level_of(max(runs$error_share))
  interval <- ratio_interval(asymmetric, symmetric, paired = FALSE, level)
  tibble::tibble(
    algorithm = condition$algorithm, loss_percent = condition$loss_percent,
    n = min(length(asymmetric), length(symmetric)),
    ratio = interval$value, low = interval$low, high = interval$high,
    apart = ifelse(is.na(interval$low), NA, as.numeric(differ(interval)))
  )
}

# Columns of goodput over other windows of a run (src/losslab/campaign/tables.py).
agreement_windows <- c(early = "early_goodput_mbit", late = "late_goodput_mbit",
                       whole = "whole_goodput_mbit")

# Judge the claims on goodput again over other windows. If a run has no warm-up, the claim is about
# the whole run.
window_sensitivity <- function(claims, data, study) {
  of_goodput <- vapply(claims, \(claim) metric_of(claim) == "goodput_mbit", TRUE)
  shares <- error_shares(claims, data)
  rows <- Map(
    \(claim, share) judge_in_windows(claim, data, study, level_of(share)),
    claims[of_goodput], shares[of_goodput]
  )
  dplyr::bind_rows(rows)
}

# Judge one claim over its own window and each other; NULL if the campaign does not measure it.
judge_in_windows <- function(claim, data, study, level) {
  judged <- evaluate_claim(claim, data, study, level)
  if (judged$verdict == "not measured") {
    return(NULL)
  }
  windows <- lapply(agreement_windows, function(metric) {
    # The claim's reason is about its own window.
    measure_claim(utils::modifyList(claim, list(metric = metric, reason = NULL)), data, level)
  })
  # tibble() would evaluate `claim` as the new column in the arguments after it.
  tibble::as_tibble(list(
    study = study, claim = claim$id, sentence = claim$sentence, unit = judged$unit,
    tolerance = judged$tolerance, measured = judged$measured, verdict = judged$verdict,
    early = windows$early$value, early_verdict = windows$early$verdict,
    late = windows$late$value, late_verdict = windows$late$verdict,
    whole = windows$whole$value, whole_verdict = windows$whole$verdict
  ))
}

# Count the claims that agree in one window of the runs and differ in another.
count_reversed <- function(verdict, other) {
  sum((verdict %in% agreeing & other %in% differing) |
    (verdict %in% differing & other %in% agreeing))
}

# State how many verdicts other windows of the runs reverse; "" without claims on goodput.
windows_text <- function(windows) {
  if (nrow(windows) == 0) {
    return("")
  }
  reversed <- function(verdicts) count_reversed(windows$verdict, verdicts)
  paste0(
    "**Windows of time.** The claims on goodput are judged again on the first half of each run, ",
    "the second half, and the whole run without a warm-up (@tbl-agreement-windows). Of ",
    nrow(windows), " verdicts, the first half reverses ", reversed(windows$early_verdict),
    ", the second ", reversed(windows$late_verdict), ", and the whole run ",
    reversed(windows$whole_verdict), ". Others become inconclusive, because half a run varies more."
  )
}

# Halves of a run that differ by less do not matter (src/losslab/campaign/halves.py).
unimportant_ratio <- 1.05

halves_columns <- c("study", "cell", "n", "ratio", "low", "high", "apart")

# Compare the second half of each cell's runs with the first, by goodput: the geometric mean of the
# ratios with its confidence interval over the runs. `apart` is 1 if the halves differ significantly
# and by 5 % or more: the mean then depends on the length of the runs. Cells are left out if their
# halves differ by intent, because the path or the flows change (`applies`,
# src/losslab/study/runlength.py), or if they have too few runs for an interval.
halves_of_cells <- function(replicates) {
  steady <- replicates |>
    dplyr::filter(
      valid, app %in% c("iperf3", "quic"), rtt_ms > 0, trace == "none", changes == "none",
      !grepl("(start_s|end_s|every_s)=", flows),
      early_goodput_mbit > 0, late_goodput_mbit > 0
    )
  cells <- split(steady, factor(paste(steady$study, steady$cell)))
  rows <- lapply(cells, function(runs) {
    if (nrow(runs) < min_runs) {
      return(NULL)
    }
    found <- ratio_interval(runs$late_goodput_mbit, runs$early_goodput_mbit)
    matters <- max(found$value, 1 / found$value) >= unimportant_ratio
    tibble::tibble(
      study = runs$study[1], cell = runs$cell[1], n = nrow(runs), ratio = found$value,
      low = found$low, high = found$high, apart = as.numeric(differ(found) && matters)
    )
  })
  with_columns(dplyr::bind_rows(rows), halves_columns)
}

# Warn of the cells whose halves differ; "" without cells to compare.
halves_text <- function(halves) {
  if (nrow(halves) == 0) {
    return("")
  }
  apart <- sum(halves$apart)
  start <- paste0("**Length of the runs.** In ", apart, " of ", nrow(halves), " cells with a ",
                  "steady path and enough runs, ")
  differ <- "the second half of the runs differs from the first significantly and by 5 % or more"
  if (apart == 0) {
    return(paste0("**Length of the runs.** In none of ", nrow(halves), " cells with a steady path ",
                  "and enough runs, ", differ, "."))
  }
  paste0(
    start, differ, " (@tbl-agreement-halves). These means depend on the length of the runs: ",
    "longer runs would have others, and more runs only make a wrong interval narrower."
  )
}

# Draw the ratios of the two paths' goodputs.
draw_agreement <- function(paths, algorithms) {
  dodge <- ggplot2::position_dodge(0.4)
  ggplot2::ggplot(
    paths, ggplot2::aes(loss_percent, ratio, colour = algorithm, shape = algorithm)
  ) +
    ggplot2::geom_hline(yintercept = 1, colour = "grey60", linewidth = 0.3) +
    ggplot2::geom_linerange(
      ggplot2::aes(ymin = low, ymax = high), position = dodge, na.rm = TRUE
    ) +
    ggplot2::geom_point(size = 1.8, position = dodge) +
    ggplot2::scale_x_continuous(breaks = 0:10) +
    algorithm_scales(algorithms) +
    ggplot2::labs(x = "Loss, %", y = "Asymmetric / symmetric") +
    theme_losslab()
}
