# How often intervals cover what they are of, on runs as they are: `Rscript bench/coverage.R`.
#
# Draws samples of each population of bench/populations.csv (python -m bench.populations), which
# stands for all runs of its cell, and counts how often each kind of interval has the population's
# own value. Writes bench/coverage.csv, which the report shows.
for (path in Sys.glob("analysis/R/*.R")) source(path)

draws <- 4000
sizes <- c(3, 5, 10, 20)
# The bootstrap's own draws; it is here to be compared with.
resamples <- 1000

percentile_bootstrap <- function(x) {
  means <- colMeans(matrix(sample(x, length(x) * resamples, replace = TRUE), nrow = length(x)))
  edges <- stats::quantile(means, c(0.025, 0.975), names = FALSE)
  list(low = edges[1], high = edges[2])
}

covers <- function(interval, value) {
  # Equal runs have an interval without width.
  near <- 1e-9 * abs(value)
  interval$low - near <= value && value <= interval$high + near
}

# The share of samples of n runs whose interval covers, in percent.
coverage <- function(n, interval, value, repeats = draws) {
  hits <- vapply(seq_len(repeats), \(draw) covers(interval(n), value), TRUE)
  100 * mean(hits)
}

drawn <- function(values) function(n) sample(values, n, replace = TRUE)

of_population <- function(rows) {
  draw <- drawn(rows$value)
  centre <- mean(rows$value)
  logs <- exp(mean(log(rows$value)))
  kinds <- list(
    list("mean, Student's t", \(n) mean_interval(draw(n)), centre, least_runs),
    list("mean, percentile bootstrap", \(n) percentile_bootstrap(draw(n)), centre, 2),
    list("median, order statistics", \(n) median_interval(draw(n)), stats::median(rows$value), 6),
    # Against a second sample of the same cell: the ratio is one.
    list("ratio, Welch's t of logarithms", \(n) {
      ratio_interval(draw(n), draw(n), paired = FALSE)
    }, 1, least_runs),
    # Against a constant: the geometric mean, of which the paired ratio is one.
    list("ratio of pairs, Student's t of logarithms", \(n) {
      ratio_interval(draw(n), rep(1, n))
    }, logs, least_runs)
  )
  found <- lapply(kinds, function(each) {
    fit <- sizes[sizes >= each[[4]]]
    repeats <- if (grepl("bootstrap", each[[1]])) draws / 4 else draws
    covered <- vapply(fit, \(n) coverage(n, each[[2]], each[[3]], repeats), 1)
    tibble::tibble(
      population = rows$population[1], metric = rows$metric[1], runs = nrow(rows),
      spread_percent = 100 * stats::sd(rows$value) / centre, kind = each[[1]], n = fit,
      coverage_percent = covered, draws = repeats
    )
  })
  dplyr::bind_rows(found)
}

one_locale()
set.seed(1, kind = "Mersenne-Twister", sample.kind = "Rejection")
populations <- readr::read_csv("bench/populations.csv", show_col_types = FALSE)
names <- unique(populations$population)
lapply(names, \(name) of_population(populations[populations$population == name, ])) |>
  dplyr::bind_rows() |>
  write_table("bench/coverage.csv")
