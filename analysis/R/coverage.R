# Coverage of confidence intervals on the campaign's own runs: how often an interval of n runs,
# drawn from a population of runs of one kind, contains the population's value.
#
# Each run is divided by its cell's mean, and its deviation is multiplied by sqrt(n / (n - 1)),
# because the mean is estimated from the same runs.

# Samples for each population, kind of interval and size.
coverage_draws <- 1000
coverage_sizes <- c(3, 5, 10, 20)
# Draws of the bootstrap, which is included for comparison.
coverage_resamples <- 1000
# Minimum number of runs of a population.
min_population <- 60

# Study, metric and cells of each population, by its name.
kinds_of_runs <- list(
  "CUBIC, loss up to 1 %" = list("loss", "goodput_mbit", \(rows) {
    rows$app == "iperf3" & rows$algorithm == "cubic" & rows$loss_percent > 0 &
      rows$loss_percent <= 1
  }),
  "CUBIC, 2 to 5 % loss" = list("loss", "goodput_mbit", \(rows) {
    rows$app == "iperf3" & rows$algorithm == "cubic" & rows$loss_percent > 1 &
      rows$loss_percent <= 5
  }),
  "CUBIC, 6 to 10 % loss" = list("loss", "goodput_mbit", \(rows) {
    rows$app == "iperf3" & rows$algorithm == "cubic" & rows$loss_percent > 5
  }),
  "BBR, 1 to 10 % loss" = list("loss", "goodput_mbit", \(rows) {
    rows$app == "iperf3" & rows$algorithm == "bbr" & rows$loss_percent >= 1
  }),
  "Reno, 0.1 to 2 % loss" = list("calibration", "goodput_mbit", \(rows) rows$block == "response"),
  "CUBIC between two hosts" = list("cloud", "goodput_mbit", \(rows) {
    rows$app == "iperf3" & rows$algorithm == "cubic" & rows$competitor == "none"
  }),
  "Pages behind a long flow" = list("bufferbloat", "download_s", \(rows) {
    rows$app == "web" & rows$competitor != "none"
  }),
  "Schemes over a cellular link" = list("cellular", "power", \(rows) rows$app == "datagram"),
  "Shares of two flows" = list("cloud", "jain_index", \(rows) rows$competitor != "none")
)

no_coverage <- tibble::tibble(
  population = "", runs = 0, spread_percent = 0, kind = "", n = 0, coverage_percent = 0,
  miss_percent = 0, draws = 0
)[0, ]

# Compute the coverage for each population of a campaign's runs. The populations do not depend on
# the order of the rows, and the draws have a seed.
coverage_of_intervals <- function(replicates) {
  set.seed(1, kind = "Mersenne-Twister", sample.kind = "Rejection")
  populations <- lapply(kinds_of_runs, population, replicates = replicates)
  enough <- populations[lengths(populations) >= min_population]
  dplyr::bind_rows(no_coverage, unname(Map(coverage_of_population, names(enough), enough)))
}

# Select the runs of a kind, divided by their cells' means.
population <- function(kind, replicates) {
  rows <- replicates[replicates$study == kind[[1]], ]
  if (nrow(rows) == 0 || !kind[[2]] %in% names(rows)) {
    return(numeric())
  }
  rows <- rows[which(kind[[3]](rows) & rows$valid & !is.na(rows[[kind[[2]]]])), ]
  unlist(lapply(split(rows[[kind[[2]]]], factor(rows$cell)), function(values) {
    n <- length(values)
    if (n < min_runs || stats::sd(values) < 1e-9 * mean(values)) {
      return(NULL)
    }
    pmax(0, 1 + (values / mean(values) - 1) * sqrt(n / (n - 1)))
  }), use.names = FALSE)
}

percentile_bootstrap <- function(x) {
  draws <- sample(x, length(x) * coverage_resamples, replace = TRUE)
  means <- colMeans(matrix(draws, nrow = length(x)))
  edges <- stats::quantile(means, c(0.025, 0.975), names = FALSE)
  list(low = edges[1], high = edges[2])
}

# Return by which share of a value an interval misses it; 0 if it contains it. Equal runs have a
# confidence interval of zero width.
miss <- function(interval, value) {
  share <- max(interval$low - value, value - interval$high) / abs(value)
  if (is.na(share)) Inf else if (share <= 1e-9) 0 else share
}

coverage_of_population <- function(name, values) {
  values <- values[values > 0]
  draw <- \(n) sample(values, n, replace = TRUE)
  kinds <- list(
    list("mean, t of logarithms", \(n) mean_interval(draw(n)), mean(values), min_runs),
    list("mean, percentile bootstrap", \(n) percentile_bootstrap(draw(n)), mean(values), 2),
    list("median, order statistics", \(n) median_interval(draw(n)), stats::median(values), 6),
    # Compared with a second sample of the same population: the ratio is 1.
    list("ratio of two groups, t of logarithms", \(n) {
      ratio_interval(draw(n), draw(n), paired = FALSE)
    }, 1, min_runs),
    # Compared with a constant: the paired ratio is the geometric mean.
    list("ratio of pairs, t of logarithms", \(n) {
      ratio_interval(draw(n), rep(1, n))
    }, exp(mean(log(values))), min_runs)
  )
  dplyr::bind_rows(lapply(kinds, function(kind) {
    fit <- coverage_sizes[coverage_sizes >= kind[[4]]]
    repeats <- max(1, coverage_draws / if (grepl("bootstrap", kind[[1]])) 4 else 1)
    dplyr::bind_rows(lapply(fit, function(n) {
      misses <- vapply(seq_len(repeats), \(draw) miss(kind[[2]](n), kind[[3]]), 1)
      tibble::tibble(
        population = name, runs = length(values), spread_percent = 100 * stats::sd(values),
        kind = kind[[1]], n = n, coverage_percent = 100 * mean(misses == 0),
        miss_percent = 100 * stats::quantile(misses, 0.95, names = FALSE, type = 1),
        draws = repeats
      )
    }))
  }))
}
