# 95 % intervals over replicates. bench/coverage.R shows by simulation on recorded runs how often
# they cover what they are of, and what the bootstrap of so few would.

# Of fewer replicates there is no interval: four runs say too little about what a fifth would be.
least_runs <- 5

interval_level <- 0.95

no_interval <- list(low = NA_real_, high = NA_real_)

# The interval of the mean: Student's t on logarithms, for the mean of a log-normal distribution
# (Cox's interval with t; Olsson, Journal of Statistics Education 13(1), 2005). Runs that scatter
# widely scatter to one side, and there the plain t covers too little; where they do not, the two
# are the same. Plain t where a value is zero or below.
mean_interval <- function(x, level = interval_level) {
  n <- length(x)
  if (n < least_runs) {
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

# The interval of the median between two order statistics (Conover, Practical Nonparametric
# Statistics, 3.2): exact, whatever the distribution, and so wide that it covers at least the level.
# Of five values not even the whole range does.
median_interval <- function(x, level = interval_level) {
  n <- length(x)
  below <- stats::qbinom((1 - level) / 2, n, 0.5)
  if (n < least_runs || below < 1) {
    return(no_interval)
  }
  sorted <- sort(x)
  list(low = sorted[below], high = sorted[n + 1 - below])
}

# The geometric mean of the ratios a / b, with Student's t interval on logarithms: of pairs, or,
# where the values are no pairs, Welch's. A zero has no logarithm: where there is one, the ratio of
# the means, with the same intervals by the delta method.
ratio_interval <- function(a, b, paired = TRUE, level = interval_level) {
  if (any(c(a, b) <= 0)) {
    if (mean(a) <= 0 || mean(b) <= 0) {
      return(list(value = if (mean(b) > 0) mean(a) / mean(b) else NA_real_, low = NA, high = NA))
    }
    # The logarithm of a mean changes by as much as its relative change.
    value <- log(mean(a) / mean(b))
    a <- a / mean(a)
    b <- b / mean(b)
  } else {
    a <- log(a)
    b <- log(b)
    value <- mean(a) - mean(b)
  }
  if (min(length(a), length(b)) < least_runs) {
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
