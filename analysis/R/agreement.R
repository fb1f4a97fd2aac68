# How often what is equal is called different, and what warm-up and length of the runs decide.

# A cell's halves are drawn this often, with a fixed seed: what one draw decides is averaged out.
agreement_splits <- 100

# What is compared in a cell: the first of these that its runs have.
agreement_metrics <- c("goodput_mbit", "download_s", "power", "throughput_mbit")

# Per cell with runs enough: how many of the splits into two halves give ratios that are certainly
# not one. Cells of which all runs are equal have nothing to disagree about and are left out.
seed_disagreements <- function(replicates, splits = agreement_splits, seed = 1) {
  set.seed(seed, kind = "Mersenne-Twister", sample.kind = "Rejection")
  counted <- replicates |>
    dplyr::filter(valid) |>
    with_first_of(agreement_metrics) |>
    dplyr::filter(value > 0) |>
    dplyr::arrange(study, cell, replicate)
  cells <- split(counted, factor(paste(counted$study, counted$cell)))
  dplyr::bind_rows(lapply(cells, function(rows) {
    values <- rows$value
    half <- length(values) %/% 2
    # Each half is to have as many runs as an interval takes.
    if (length(values) < 2 * least_runs || stats::sd(values) < 1e-9 * mean(values)) {
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

# Add `value`: of the columns the first that a row has.
with_first_of <- function(rows, columns) {
  rows$value <- do.call(dplyr::coalesce, unname(as.list(rows[columns])))
  rows
}

# Whether an interval of a ratio is sure that it is not one.
differ <- function(found) isTRUE(found$low > 1) || isTRUE(found$high < 1)

# The share of false alarms of each study and of all, with its interval over cells.
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

# The asymmetric path over the symmetric one: the same rate, delay, buffer and loss, other routers.
path_agreement <- function(replicates) {
  # A campaign without the study has no rows, and no columns.
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
    of_both <- ratio_interval(a, b, paired = FALSE)
    tibble::tibble(
      algorithm = both$algorithm[row], loss_percent = both$loss_percent[row],
      n = min(length(a), length(b)), ratio = of_both$value, low = of_both$low,
      high = of_both$high, apart = ifelse(is.na(of_both$low), NA, as.numeric(differ(of_both)))
    )
  })
  with_columns(dplyr::bind_rows(found), path_columns)
}

# Goodput over other windows than a run's own (src/losslab/campaign/collect.py).
agreement_windows <- c(early = "early_goodput_mbit", late = "late_goodput_mbit",
                       whole = "whole_goodput_mbit")

# Claims on goodput, judged again over other windows: their numbers and verdicts. Of runs without a
# warm-up the whole run is what is claimed of.
window_sensitivity <- function(claims, data, study) {
  of_goodput <- Filter(\(claim) metric_of(claim) == "goodput_mbit", claims)
  found <- lapply(of_goodput, function(claim) {
    own <- evaluate_claim(claim, data, study)
    if (own$verdict == "not measured") {
      return(NULL)
    }
    others <- lapply(agreement_windows, function(metric) {
      claim$metric <- metric
      claim$reason <- NULL
      measure_claim(claim, data)
    })
    # Not tibble(), in which `claim` would be the new column from there on.
    tibble::as_tibble(list(
      study = study, claim = claim$id, sentence = claim$sentence, unit = own$unit,
      tolerance = own$tolerance, measured = own$measured, verdict = own$verdict,
      early = others$early$value, early_verdict = others$early$verdict,
      late = others$late$value, late_verdict = others$late$verdict,
      whole = others$whole$value, whole_verdict = others$whole$verdict
    ))
  })
  dplyr::bind_rows(found)
}

# How many verdicts a window would turn round: from `reproduced` to `differs` or back.
turned <- function(verdict, other) {
  sum((verdict == "reproduced" & other == "differs") |
    (verdict == "differs" & other == "reproduced"))
}
