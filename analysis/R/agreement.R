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
differ <- function(found) isTRUE(found$low > 1) || isTRUE(found$high < 1)

# Compute the share of false alarms of each study and of all, with its confidence interval over
# cells.
summarise_disagreements <- function(found) {
  of <- function(name, rows) {
    interval <- mean_interval(rows$share)
    tibble::tibble(
      study = name, cells = nrow(rows), percent = 100 * mean(rows$share),
      low = max(0, 100 * interval$low), high = 100 * interval$high
    )
  }
  if (nrow(found) == 0) {
    return(found)
  }
  by_study <- lapply(unique(found$study), \(name) of(name, found[found$study == name, ]))
  dplyr::bind_rows(c(by_study, list(of("all", found))))
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
  both <- counted |>
    dplyr::distinct(dplyr::across(dplyr::all_of(c("path", shared)))) |>
    dplyr::count(dplyr::across(dplyr::all_of(shared))) |>
    dplyr::filter(n == 2)
  found <- lapply(seq_len(nrow(both)), function(row) {
    runs <- dplyr::inner_join(counted, both[row, shared], by = shared)
    of_path <- function(which) runs$goodput_mbit[runs$path == which]
    a <- of_path("asymmetric")
    b <- of_path("symmetric")
    of_both <- ratio_interval(a, b, paired = FALSE, level_of(max(runs$error_share)))
    tibble::tibble(
      algorithm = both$algorithm[row], loss_percent = both$loss_percent[row],
      n = min(length(a), length(b)), ratio = of_both$value, low = of_both$low,
      high = of_both$high, apart = ifelse(is.na(of_both$low), NA, as.numeric(differ(of_both)))
    )
  })
  with_columns(dplyr::bind_rows(found), path_columns)
}

# Columns of goodput over other windows of a run (src/losslab/campaign/tables.py).
agreement_windows <- c(early = "early_goodput_mbit", late = "late_goodput_mbit",
                       whole = "whole_goodput_mbit")

# Judge the claims on goodput again over other windows. If a run has no warm-up, the claim is about
# the whole run.
window_sensitivity <- function(claims, data, study) {
  shares <- error_shares(claims, data)
  of_goodput <- vapply(claims, \(claim) metric_of(claim) == "goodput_mbit", TRUE)
  found <- Map(function(claim, share) {
    level <- level_of(share)
    own <- evaluate_claim(claim, data, study, level)
    if (own$verdict == "not measured") {
      return(NULL)
    }
    others <- lapply(agreement_windows, function(metric) {
      claim$metric <- metric
      claim$reason <- NULL
      measure_claim(claim, data, level)
    })
    # tibble() would evaluate `claim` as the new column in the arguments after it.
    tibble::as_tibble(list(
      study = study, claim = claim$id, sentence = claim$sentence, unit = own$unit,
      tolerance = own$tolerance, measured = own$measured, verdict = own$verdict,
      early = others$early$value, early_verdict = others$early$verdict,
      late = others$late$value, late_verdict = others$late$verdict,
      whole = others$whole$value, whole_verdict = others$whole$verdict
    ))
  }, claims[of_goodput], shares[of_goodput])
  dplyr::bind_rows(found)
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
