# 95 % confidence intervals over replicates. coverage.R simulates their coverage, and that of
# the bootstrap, from recorded runs.

# Minimum number of replicates for a confidence interval; four predict a fifth too poorly.
min_runs <- 5

interval_level <- 0.95

# Compute the level of an interval that has a share of the error of another level.
level_of <- function(share, level = interval_level) 1 - (1 - level) * share

# Get the share of the error that runs of a cell have. Cells that may end early have a share at each
# look (src/losslab/study/intervals.py).
share_of <- function(runs) min(1, runs[["error_share"]])

no_interval <- list(low = NA_real_, high = NA_real_)

# Runs that differ by no more than this share of their mean are deterministic: one observation,
# whatever their number.
deterministic_share <- 1e-6

is_deterministic <- function(x) {
  length(x) > 1 && diff(range(x)) <= deterministic_share * abs(mean(x))
}

# Metrics whose values have an upper limit. Their smallest value is zero.
upper_limits <- c(
  jain_index = 1, frames_delivered_percent = 100, frames_on_time_percent = 100,
  rwnd_limited_percent = 100
)

# Compute the confidence interval of the mean: Student's t on logarithms, for the mean of a
# log-normal distribution (Cox's interval with t; Olsson, Journal of Statistics Education 13(1),
# 2005). Runs with a large variance are skewed, and a plain t interval then covers too little. With
# a small variance, both intervals are equal. Plain t if a value is not positive.
mean_interval <- function(x, level = interval_level) {
  n <- length(x)
  if (n < min_runs) {
    return(no_interval)
  }
  t <- stats::qt((1 + level) / 2, n - 1)
  if (any(x <= 0)) {
    half <- t * stats::sd(x) / sqrt(n)
    return(list(low = mean(x) - half, high = mean(x) + half))
  }
  variance <- stats::var(log(x))
  centre <- mean(log(x)) + variance / 2
  half <- t * sqrt(variance / n + variance^2 / (2 * (n - 1)))
  list(low = exp(centre - half), high = exp(centre + half))
}

# Compute the confidence interval of the median between two order statistics (Conover, Practical
# Nonparametric Statistics, 3.2). It is exact for any distribution and covers at least the level.
# For five values, even the whole range does not.
median_interval <- function(x, level = interval_level) {
  n <- length(x)
  below <- stats::qbinom((1 - level) / 2, n, 0.5)
  if (n < min_runs || below < 1) {
    return(no_interval)
  }
  sorted <- sort(x)
  list(low = sorted[below], high = sorted[n + 1 - below])
}

# Compute the geometric mean of the ratios a / b with a t interval on logarithms: Student's for
# pairs, Welch's for unpaired values. A zero has no logarithm. With a zero, the result is the ratio
# of the means, with the same intervals by the delta method.
ratio_interval <- function(a, b, paired = TRUE, level = interval_level) {
  if (any(c(a, b) <= 0)) {
    if (mean(a) <= 0 || mean(b) <= 0) {
      return(list(value = if (mean(b) > 0) mean(a) / mean(b) else NA_real_, low = NA, high = NA))
    }
    # To first order, the logarithm of a mean changes by its relative change.
    value <- log(mean(a) / mean(b))
    a <- a / mean(a)
    b <- b / mean(b)
  } else {
    a <- log(a)
    b <- log(b)
    value <- mean(a) - mean(b)
  }
  if (min(length(a), length(b)) < min_runs) {
    return(list(value = exp(value), low = NA_real_, high = NA_real_))
  }
  if (paired) {
    error <- stats::sd(a - b) / sqrt(length(a))
    freedom <- length(a) - 1
  } else {
    parts <- c(stats::var(a) / length(a), stats::var(b) / length(b))
    error <- sqrt(sum(parts))
    freedom <- if (error > 0) sum(parts)^2 / sum(parts^2 / (c(length(a), length(b)) - 1)) else 1
  }
  half <- stats::qt((1 + level) / 2, freedom) * error
  list(value = exp(value), low = exp(value - half), high = exp(value + half))
}

# Compute the confidence interval of the mean of a metric. If its values have an upper limit, the
# interval is Student's t for the logit of the mean, by the delta method, and is within the limits.
mean_interval_of <- function(x, metric, level = interval_level) {
  upper <- unname(upper_limits[metric])
  share <- mean(x) / upper
  if (is.na(upper) || length(x) < min_runs || share <= 0 || share >= 1) {
    return(mean_interval(x, level))
  }
  error <- stats::sd(x / upper) / sqrt(length(x)) / (share * (1 - share))
  ends <- stats::qlogis(share) + c(-1, 1) * stats::qt((1 + level) / 2, length(x) - 1) * error
  list(low = upper * stats::plogis(ends[1]), high = upper * stats::plogis(ends[2]))
}

# Compute the ratio of two cells from their runs: the geometric mean over pairs of runs with the
# same seed. Runs are not paired if the conditions have different seeds, or if only one of the cells
# ended early: pairs would omit runs of the other one. Then the error share is the larger one,
# because the cell that ended early adds little to the error.
#
# `a` and `b` have the columns replicate, seed, value and error_share.
ratio_of_runs <- function(a, b, level = interval_level) {
  shares <- c(share_of(a), share_of(b))
  pair <- match(paste(a$replicate, a$seed), paste(b$replicate, b$seed))
  paired <- !is.na(pair)
  if (any(paired) && shares[1] == shares[2]) {
    level <- level_of(shares[1], level)
    return(c(ratio_interval(a$value[paired], b$value[pair[paired]], TRUE, level), n = sum(paired)))
  }
  found <- ratio_interval(a$value, b$value, FALSE, level_of(max(shares), level))
  c(found, n = min(length(a$value), length(b$value)))
}

# Compute the prediction interval of the mean of `runs` new runs, from runs of the same kind:
# Student's t, on logarithms if all values are positive (Hahn and Meeker, Statistical Intervals,
# 1991, 4.7). Unlike a mean's confidence interval, it does not shrink to a point with more runs. On
# logarithms, the mean of several runs is the geometric one.
prediction_interval <- function(x, runs, level = interval_level) {
  n <- length(x)
  if (n < min_runs) {
    return(no_interval)
  }
  positive <- all(x > 0)
  values <- if (positive) log(x) else x
  half <- stats::qt((1 + level) / 2, n - 1) * stats::sd(values) * sqrt(1 / runs + 1 / n)
  ends <- mean(values) + c(-1, 1) * half
  if (positive) {
    ends <- exp(ends)
  } else if (all(x >= 0)) {
    # A count cannot be negative.
    ends <- pmax(ends, 0)
  }
  list(low = ends[1], high = ends[2])
}

# Compute the interval of the mean of `x`, widened by the error of a published mean of `runs` runs
# with standard deviation `sd`: Welch's t. The published mean is within it with the probability
# `level` if both means are equal.
two_sample_interval <- function(x, sd, runs, level = interval_level) {
  n <- length(x)
  if (n < min_runs) {
    return(no_interval)
  }
  parts <- c(stats::var(x) / n, sd^2 / runs)
  freedom <- sum(parts)^2 / sum(parts^2 / (c(n, runs) - 1))
  half <- stats::qt((1 + level) / 2, freedom) * sqrt(sum(parts))
  list(low = mean(x) - half, high = mean(x) + half)
}

# Compute the prediction interval of the ratio of the means of `runs` new runs of each of two
# conditions: Welch's t on logarithms. A source's runs share no seeds, so pairs do not matter.
ratio_prediction <- function(a, b, runs, level = interval_level) {
  if (min(length(a), length(b)) < min_runs || any(c(a, b) <= 0)) {
    return(no_interval)
  }
  n <- c(length(a), length(b))
  parts <- c(stats::var(log(a)), stats::var(log(b))) * (1 / runs + 1 / n)
  freedom <- if (sum(parts) > 0) sum(parts)^2 / sum(parts^2 / (n - 1)) else 1
  half <- stats::qt((1 + level) / 2, freedom) * sqrt(sum(parts))
  ratio <- mean(log(a)) - mean(log(b))
  list(low = exp(ratio - half), high = exp(ratio + half))
}

# Compute the ratio of the scatter of two samples: of the mean absolute deviations from the median,
# of logarithms if all values are positive. The interval is that of Bonett and Seier (The American
# Statistician 57, 2003), which needs no normal distribution, with Welch's t instead of the normal
# quantile. Without any scatter in `a`, the ratio is 0.
scatter_interval <- function(a, b, level = interval_level) {
  n <- min(length(a), length(b))
  if (n < min_runs || is_deterministic(b)) {
    return(c(list(value = NA_real_), no_interval, n = n))
  }
  if (is_deterministic(a)) {
    return(list(value = 0, low = 0, high = 0, n = n))
  }
  positive <- all(c(a, b) > 0)
  deviations <- lapply(list(a, b), function(x) {
    x <- if (positive) log(x) else x
    abs(x - stats::median(x))
  })
  sizes <- lengths(deviations)
  means <- vapply(deviations, mean, 0)
  parts <- vapply(deviations, stats::var, 0) / means^2 / sizes
  freedom <- sum(parts)^2 / sum(parts^2 / (sizes - 1))
  half <- stats::qt((1 + level) / 2, freedom) * sqrt(sum(parts))
  # A sample's median is nearer to its values than the true one.
  ratio <- log(means * sizes / (sizes - 1))
  as.list(c(exp(ratio[1] - ratio[2] + c(low = -half, value = 0, high = half)), n = n))
}
