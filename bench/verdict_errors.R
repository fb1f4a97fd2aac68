# Error rates of the verdicts: `Rscript bench/verdict_errors.R results FILE draws early_error`.
#
# Simulates runs of the kind that a campaign measured, judges them with the functions of the claims,
# and counts wrong and missing verdicts. The scatter is that of the cells in results/summary:
# quantiles of the standard deviation of the logarithm of their primary metric. Writes a table.
# `python -m bench.verdict_errors` starts it, with the share of the error for early looks, and
# writes the page of the documentation.
for (path in Sys.glob("analysis/R/*.R")) source(path)

arguments <- commandArgs(trailingOnly = TRUE)
draws <- as.integer(arguments[3])
early_error <- as.numeric(arguments[4])
seed <- 1
# The margin of a value, and the distances of the truth from the published number, as factors.
margin <- 1.2
distances <- c(equal = 1, edge = margin, beyond = margin^2)
sizes <- c(5, 10)
family <- 10
centre <- 100

log_normal <- function(n, mean, spread) {
  mean * exp(stats::rnorm(n, -spread^2 / 2, spread))
}
normal <- function(n, mean, spread) stats::rnorm(n, mean, spread * mean)

# Each comparison draws the source's number, whose true mean is `centre`, and returns a claim.
claim_near <- function(published, ...) {
  list(
    kind = "value", metric = "goodput_mbit", published = published,
    within = (margin - 1) * published, ...
  )
}
of_runs <- function(runs, with_sd = FALSE) {
  function(draw, spread) {
    theirs <- draw(runs, centre, spread)
    claim <- claim_near(mean(theirs), published_runs = runs)
    if (with_sd) claim$published_sd <- stats::sd(theirs)
    claim
  }
}
comparisons <- list(
  "mean and a published value" = \(draw, spread) claim_near(centre),
  "prediction of one run" = of_runs(1),
  "prediction of the mean of five runs" = of_runs(5),
  "two samples, five published runs" = of_runs(5, TRUE),
  "for comparison: mean and one run" = function(draw, spread) {
    claim_near(draw(1, centre, spread))
  }
)

judge <- function(x, claim, level = interval_level) {
  found <- c(interval_of_mean(x, claim, level), value = mean(x), n = length(x))
  verdict_of(found, claim)
}

# Count verdicts, in percent, if the true mean is a factor of the source's.
percent <- function(verdicts, which) 100 * mean(verdicts %in% which)
verdict_shares <- function(comparison, draw, spread, n) {
  verdicts <- lapply(distances, function(factor) {
    replicate(draws, judge(draw(n, factor * centre, spread), comparison(draw, spread)))
  })
  tibble::tibble(
    wrongly_not_reproduced = percent(verdicts$equal, differing),
    wrongly_reproduced = percent(verdicts$edge, agreeing),
    rightly_reproduced = percent(verdicts$equal, agreeing),
    rightly_not_reproduced = percent(verdicts$beyond, differing)
  )
}

# A threshold: the truth is at the limit, or a factor on either side of it.
threshold_shares <- function(draw, spread, n) {
  claim <- list(kind = "value", metric = "goodput_mbit", at_least = centre)
  at <- function(factor) replicate(draws, judge(draw(n, factor * centre, spread), claim))
  limit <- at(1)
  tibble::tibble(
    wrongly_not_reproduced = percent(limit, differing),
    wrongly_reproduced = percent(limit, agreeing),
    rightly_reproduced = percent(at(margin), agreeing),
    rightly_not_reproduced = percent(at(1 / margin), differing)
  )
}

# Any wrong verdict among claims that are all true: each the mean of cells at the limit.
family_errors <- function(draw, spread, n) {
  claim <- list(kind = "value", metric = "goodput_mbit", at_most = centre)
  wrong <- replicate(draws %/% 4, {
    cells <- replicate(family, draw(n, centre, spread), simplify = FALSE)
    decided <- function(level) {
      vapply(cells, \(x) judge(x, claim, level) != "inconclusive", TRUE)
    }
    # At the limit, every decision is wrong; Holm's first step decides whether there is any.
    c(any(decided(interval_level)), any(decided(level_of(1 / family))))
  })
  tibble::tibble(alone = 100 * mean(wrong[1, ]), holm = 100 * mean(wrong[2, ]))
}

# A cause: runs without it must scatter at most half as much as the claim's runs. The truth is at that
# limit, a tenth, or no less scatter.
max_scatter <- 0.5
scatter_shares <- function(draw, n) {
  at <- function(ratio) {
    replicate(draws, {
      found <- scatter_interval(exp(0.1 * ratio * draw(n)), exp(0.1 * draw(n)))
      verdict_of_mean(found, c(-Inf, max_scatter))
    })
  }
  limit <- at(max_scatter)
  tibble::tibble(
    wrongly_not_reproduced = percent(limit, differing),
    wrongly_reproduced = percent(limit, agreeing),
    rightly_reproduced = percent(at(0.1), agreeing),
    rightly_not_reproduced = percent(at(1), differing)
  )
}
# Distributions of the logarithm of a run.
of_logarithm <- list(
  "log-normal" = \(n) stats::rnorm(n), "log-t, 4 degrees of freedom" = \(n) stats::rt(n, 4)
)

# Simulate cells that end early: how often the mean's interval misses the mean, with an ordinary
# interval and with the shared error (src/losslab/study/intervals.py), and the mean number of runs.
stopping_errors <- function(rule, spread) {
  missed <- replicate(2 * draws, {
    x <- normal(rule$maximum, centre, spread)
    n <- rule$minimum
    repeat {
      found <- mean_interval(x[seq_len(n)])
      narrow <- (found$high - found$low) / 2 <= rule$half_width * mean(x[seq_len(n)])
      if (n == rule$maximum || narrow) break
      n <- n + 1
    }
    looks <- rule$maximum - rule$minimum
    share <- if (n == rule$maximum) 1 - early_error else early_error / looks
    shared <- mean_interval(x[seq_len(n)], level_of(share))
    misses <- function(interval) interval$low > centre || interval$high < centre
    c(misses(found), misses(shared), n)
  })
  tibble::tibble(
    ordinary = 100 * mean(missed[1, ]), shared = 100 * mean(missed[2, ]), runs = mean(missed[3, ])
  )
}
rules <- list(
  "5 to 10 runs, 0.5 %" = list(minimum = 5, maximum = 10, half_width = 0.005),
  "10 to 20 runs, 5 %" = list(minimum = 10, maximum = 20, half_width = 0.05)
)
# Scatter as a multiple of the accepted half width.
stop_spreads <- c(0.2, 0.6, 1, 1.4, 1.8, 2.4, 4)

# Return the standard deviations of the logarithm of each cell's primary metric.
recorded_spreads <- function(folder) {
  paths <- Sys.glob(file.path(folder, "summary", "*", "replicates.csv"))
  spreads <- unlist(lapply(paths, function(path) {
    rows <- with_columns(read_replicates(path), agreement_metrics)
    rows <- with_first_metric(rows[rows$valid, ], agreement_metrics)
    rows <- rows[!is.na(rows$value) & rows$value > 0, ]
    tapply(rows$value, rows$cell, \(x) {
      if (length(x) < min_runs || is_deterministic(x)) NA else stats::sd(log(x))
    })
  }))
  spreads[!is.na(spreads)]
}

one_locale()
set.seed(seed, kind = "Mersenne-Twister", sample.kind = "Rejection")
recorded <- recorded_spreads(arguments[1])
if (length(recorded) == 0) {
  stop("results must have a cell with ", min_runs, " runs that vary, found none")
}
shares <- c(0.25, 0.5, 0.75, 0.9)
scatter <- tibble::tibble(
  quantile = shares, spread = stats::quantile(recorded, shares, names = FALSE)
)
grid <- tidyr::expand_grid(
  distribution = c("log-normal", "normal"), n = sizes, scatter
)
draw_of <- function(distribution) if (distribution == "normal") normal else log_normal
over_grid <- function(kind, shares_of) {
  dplyr::bind_rows(lapply(seq_len(nrow(grid)), function(i) {
    found <- shares_of(draw_of(grid$distribution[i]), grid$spread[i], grid$n[i])
    dplyr::bind_cols(tibble::tibble(part = "verdicts", kind = kind), grid[i, ], found)
  }))
}
verdicts <- dplyr::bind_rows(c(
  list(over_grid("threshold", threshold_shares)),
  unname(Map(
    \(comparison, kind) over_grid(kind, \(...) verdict_shares(comparison, ...)),
    comparisons, names(comparisons)
  ))
))
families <- dplyr::bind_rows(lapply(seq_len(nrow(grid)), function(i) {
  found <- family_errors(draw_of(grid$distribution[i]), grid$spread[i], grid$n[i])
  dplyr::bind_cols(tibble::tibble(part = "family", kind = paste(family, "claims")), grid[i, ],
                   found)
}))
stops <- dplyr::bind_rows(Map(function(rule, kind) {
  dplyr::bind_rows(lapply(stop_spreads * rule$half_width, function(spread) {
    dplyr::bind_cols(
      tibble::tibble(part = "stopping", kind = kind, spread = spread), stopping_errors(rule, spread)
    )
  }))
}, rules, names(rules)))
# The seed again: these rates do not depend on the recorded scatter.
set.seed(seed, kind = "Mersenne-Twister", sample.kind = "Rejection")
causes <- dplyr::bind_rows(lapply(names(of_logarithm), function(distribution) {
  dplyr::bind_rows(lapply(c(sizes, 20), function(n) {
    found <- scatter_shares(of_logarithm[[distribution]], n)
    dplyr::bind_cols(
      tibble::tibble(part = "scatter", kind = "ratio of scatter", distribution, n), found
    )
  }))
}))
dplyr::bind_rows(verdicts, families, stops, causes) |>
  dplyr::mutate(cells = length(recorded), draws = draws, seed = seed) |>
  write_table(arguments[2])
