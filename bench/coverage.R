# Coverage of confidence intervals on measured runs: `Rscript bench/coverage.R results`.
# A second argument is the number of samples, such as 100 for a trial.
#
# The runs of cells of one kind form a population. Each run is divided by its cell's mean, and its
# deviation is multiplied by sqrt(n / (n - 1)), because the mean is estimated from the same runs.
# For samples of each population, the script counts how often each kind of confidence interval
# contains the population's value. It writes report/coverage.csv, which the report shows.
for (path in Sys.glob("analysis/R/*.R")) source(path)

arguments <- commandArgs(trailingOnly = TRUE)
draws <- if (length(arguments) > 1) as.integer(arguments[2]) else 4000L
sizes <- c(3, 5, 10, 20)
# Draws of the bootstrap, which is included for comparison.
resamples <- 1000
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

# Return the runs of a kind, divided by their cells' means.
population <- function(kind, folder) {
  path <- file.path(folder, "summary", kind[[1]], "replicates.csv")
  if (!file.exists(path)) {
    return(numeric())
  }
  rows <- with_columns(read_replicates(path), kind[[2]])
  rows <- rows[kind[[3]](rows) & rows$valid, ]
  rows <- rows[!is.na(rows[[kind[[2]]]]), ]
  unlist(lapply(split(rows[[kind[[2]]]], factor(rows$cell)), function(values) {
    n <- length(values)
    if (n < min_runs || stats::sd(values) < 1e-9 * mean(values)) {
      return(NULL)
    }
    pmax(0, 1 + (values / mean(values) - 1) * sqrt(n / (n - 1)))
  }), use.names = FALSE)
}

percentile_bootstrap <- function(x) {
  means <- colMeans(matrix(sample(x, length(x) * resamples, replace = TRUE), nrow = length(x)))
  edges <- stats::quantile(means, c(0.025, 0.975), names = FALSE)
  list(low = edges[1], high = edges[2])
}

# Equal runs have a confidence interval of zero width.
covers <- function(interval, value) {
  near <- 1e-9 * abs(value)
  isTRUE(interval$low - near <= value && value <= interval$high + near)
}

# Return the percentage of samples of n runs whose confidence interval contains the value.
coverage <- function(n, interval, value, repeats = draws) {
  100 * mean(vapply(seq_len(repeats), \(draw) covers(interval(n), value), TRUE))
}

of_population <- function(name, values) {
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
  found <- lapply(kinds, function(each) {
    fit <- sizes[sizes >= each[[4]]]
    repeats <- if (grepl("bootstrap", each[[1]])) draws / 4 else draws
    covered <- vapply(fit, \(n) coverage(n, each[[2]], each[[3]], repeats), 1)
    tibble::tibble(
      population = name, runs = length(values), spread_percent = 100 * stats::sd(values),
      kind = each[[1]], n = fit, coverage_percent = covered, draws = repeats
    )
  })
  dplyr::bind_rows(found)
}

one_locale()
set.seed(1, kind = "Mersenne-Twister", sample.kind = "Rejection")
populations <- lapply(kinds_of_runs, population, folder = arguments[1])
enough <- populations[lengths(populations) >= min_population]
if (length(enough) == 0) {
  stop("results must have ", min_population, " runs of one kind, found fewer of each")
}
dplyr::bind_rows(Map(of_population, names(enough), enough)) |>
  write_table("report/coverage.csv")
