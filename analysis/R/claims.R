# Claims are data (report/claims/*.yaml): a kind with parameters gives the measured value, a
# comparison gives the verdict.

# Mean goodput of one cell of the main block, NA where it was not measured.
mean_of <- function(means, algorithm, path, loss_percent) {
  found <- means$mean[
    means$algorithm == algorithm & means$path == path & means$loss_percent == loss_percent
  ]
  if (length(found) == 1) found else NA_real_
}

claim_kinds <- list(
  change_percent = function(means, claim) {
    base <- mean_of(means, claim$algorithm, claim$path, 0)
    100 * (mean_of(means, claim$algorithm, claim$path, claim$loss_percent) / base - 1)
  },
  mean_mbit = function(means, claim) {
    mean_of(means, claim$algorithm, claim$path, claim$loss_percent)
  },
  # The largest step upwards from one loss to the next that the data can tell from none: from the
  # upper end of one mean's interval to the lower end of the next one's, in percent.
  largest_certain_rise_percent = function(means, claim) {
    curve <- means[
      means$algorithm == claim$algorithm & means$path == claim$path &
        means$loss_percent >= claim$loss_percent,
    ]
    curve <- curve[order(curve$loss_percent), ]
    if (nrow(curve) < 2) {
      return(NA_real_)
    }
    max(100 * (curve$mean_low[-1] / utils::head(curve$mean_high, -1) - 1))
  },
  smallest_ratio = function(means, claim) {
    wide <- means |>
      dplyr::filter(path == claim$path, loss_percent >= claim$loss_percent) |>
      dplyr::select(algorithm, loss_percent, mean) |>
      tidyr::pivot_wider(names_from = algorithm, values_from = mean)
    if (nrow(wide) == 0 || !all(c("bbr", "cubic") %in% names(wide))) {
      return(NA_real_)
    }
    min(wide$bbr / wide$cubic)
  },
  asymmetric_change_percent = function(means, claim) {
    base <- mean_of(means, claim$algorithm, "symmetric", claim$loss_percent)
    100 * (mean_of(means, claim$algorithm, "asymmetric", claim$loss_percent) / base - 1)
  }
)

# Exactly one comparison per claim: at_most, at_least, or within (published value plus or minus).
holds <- function(measured, claim) {
  if (!is.null(claim$at_most)) {
    return(measured <= claim$at_most)
  }
  if (!is.null(claim$at_least)) {
    return(measured >= claim$at_least)
  }
  abs(measured - claim$published) <= claim$within
}

tolerance_text <- function(claim) {
  if (!is.null(claim$at_most)) {
    return(paste("at most", claim$at_most))
  }
  if (!is.null(claim$at_least)) {
    return(paste("at least", claim$at_least))
  }
  paste("within", claim$within)
}

evaluate_claim <- function(claim, means, study) {
  kind <- claim_kinds[[claim$kind]]
  if (is.null(kind)) {
    stop(
      "claim ", claim$id, ": kind must be one of ", toString(names(claim_kinds)), ", found ",
      claim$kind
    )
  }
  measured <- kind(means, claim)
  verdict <- if (is.na(measured)) {
    "not measured"
  } else if (holds(measured, claim)) {
    "holds"
  } else {
    "does not hold"
  }
  # Not tibble(), in which `claim` would be the new column from there on.
  tibble::as_tibble(list(
    study = study,
    claim = claim$id,
    sentence = claim$sentence,
    source = claim$source,
    published = if (is.null(claim$published)) NA_real_ else claim$published,
    measured = measured,
    tolerance = tolerance_text(claim),
    verdict = verdict
  ))
}
