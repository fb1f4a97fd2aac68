# 95 % confidence intervals over replicates. bench/coverage.R simulates their coverage, and that of
# the bootstrap, from recorded runs.

# Minimum number of replicates for a confidence interval; four predict a fifth too poorly.
min_runs <- 5

interval_level <- 0.95

no_interval <- list(low = NA_real_, high = NA_real_)

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
