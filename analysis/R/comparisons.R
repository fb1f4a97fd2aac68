# How a claim's number is compared with a published one: intervals by what the source published, and
# the level of each claim.

# Name how a claim compares its number: the mean's confidence interval with the limit, by default.
# Against published runs it is a prediction interval, or two samples if their scatter is published.
comparison_of <- function(claim) {
  if (is.null(claim$published_runs)) {
    "mean"
  } else if (is.null(claim$published_sd)) {
    "prediction"
  } else {
    "two samples"
  }
}

interval_of_mean <- function(values, claim, level) {
  switch(comparison_of(claim),
    mean = mean_interval_of(values, metric_of(claim), level),
    prediction = prediction_interval(values, claim$published_runs, level),
    "two samples" = two_sample_interval(values, claim$published_sd, claim$published_runs, level)
  )
}

# Compute a claim's statistic with its interval. Minimum and maximum are observations without an
# interval.
statistic <- function(values, claim, level) {
  switch(statistic_of(claim),
    mean = c(value = mean(values), interval_of_mean(values, claim, level)),
    median = c(value = stats::median(values), median_interval(values, level)),
    min = list(value = min(values), low = min(values), high = min(values)),
    max = list(value = max(values), low = max(values), high = max(values)),
    std = c(value = stats::sd(values), no_interval),
    q25 = c(value = stats::quantile(values, 0.25, names = FALSE), no_interval),
    q75 = c(value = stats::quantile(values, 0.75, names = FALSE), no_interval)
  )
}

# Estimate the ratio of each cell to another: the geometric mean over pairs of runs with the same
# seed, or of unpaired runs if the two conditions have different seeds. For statistics other than
# the mean, it is the plain ratio.
ratio_estimates <- function(data, claim, cells, baselines, level) {
  dplyr::bind_rows(Map(function(cell, baseline) {
    a <- runs_of(data, cell, metric_of(claim))
    b <- runs_of(data, baseline, metric_of(claim))
    n <- min(lengths(list(a$value, b$value)))
    if (statistic_of(claim) != "mean") {
      plain <- statistic(a$value, claim, level)$value / statistic(b$value, claim, level)$value
      return(list(value = plain, low = NA_real_, high = NA_real_, n = n))
    }
    if (comparison_of(claim) == "prediction") {
      value <- ratio_interval(a$value, b$value, FALSE, level)$value
      level <- level_of(max(share_of(a), share_of(b)), level)
      return(c(
        value = value, ratio_prediction(a$value, b$value, claim$published_runs, level), n = n
      ))
    }
    ratio_of_runs(a, b, level)
  }, cells, baselines))
}

# Test whether none of the cells of a claim varies. Then n runs are one observation.
all_deterministic <- function(data, claim) {
  cells <- unlist(lapply(cells_of(data, claim), `[[`, "cell"))
  all(vapply(cells, \(cell) is_deterministic(runs_of(data, cell, metric_of(claim))$value), TRUE))
}

# Describe the interval of a claim's number, for readers: its kind, and its level in percent.
interval_words <- function(claim, estimate, deterministic, level) {
  if (deterministic) {
    return("deterministic")
  }
  if (is.na(estimate$low) || statistic_of(claim) %in% c("min", "max")) {
    return("")
  }
  runs <- claim$published_runs
  kind <- switch(comparison_of(claim),
    mean = "confidence",
    prediction = paste("prediction of", if (runs == 1) "one run" else paste(runs, "runs")),
    "two samples" = paste0("two samples (", runs, " published runs)")
  )
  paste0(kind, ", ", short(100 * level, 4), " %")
}

# Compute each claim's share of the 5 % error. Every claim has all of it, except those on a source's
# means to which nothing was fitted. They are a family, judged by Holm's method: the probability of
# any wrong verdict among them is at most 5 % (Holm, Scandinavian Journal of Statistics 6, 1979). Of
# k claims, each is judged with a k-th of the error; those that are decided leave the family, and
# the rest is judged again.
error_shares <- function(claims, data) {
  shares <- rep(1, length(claims))
  open <- which(vapply(claims, \(claim) {
    identical(claim$evidence, "not fitted") && !of_single_run(claim) &&
      is.null(claim$not_comparable) && why_not_measured(data, claim) == ""
  }, TRUE))
  while (length(open) > 0) {
    shares[open] <- 1 / length(open)
    decided <- vapply(open, \(i) {
      measure_claim(claims[[i]], data, level_of(shares[i]))$verdict != "inconclusive"
    }, TRUE)
    if (!any(decided)) {
      break
    }
    open <- open[!decided]
  }
  shares
}
