# The source's runs, with power computed from throughput and delay.

source_runs <- function(published) {
  published |>
    dplyr::filter(!is.na(throughput_mbit)) |>
    dplyr::mutate(quotient = 1000 * throughput_mbit / signal_delay_p95_ms)
}

# Summarise each scheme of any exercise: means over its runs, and the power stated in the text.
source_scores <- function(published) {
  stated <- published |>
    dplyr::filter(!is.na(power)) |>
    dplyr::distinct(scheme, stated_power = power)
  # Without a throughput, a delay stated in the text gives no power.
  published |>
    dplyr::mutate(quotient = 1000 * throughput_mbit / signal_delay_p95_ms) |>
    dplyr::group_by(scheme) |>
    dplyr::summarise(
      published_runs = dplyr::n(), published_mbit = mean(throughput_mbit),
      published_signal_ms = mean(signal_delay_p95_ms), published_quotient = mean(quotient),
      .groups = "drop"
    ) |>
    dplyr::left_join(stated, by = "scheme")
}

# TCP's parameters. The source varied one at a time.
single_parameters <- c(
  alpha = "alpha", beta = "beta", rtt_gain = "gain", add = "growth", multiply = "decrease"
)
single_defaults <- c(alpha = 0.125, beta = 0.25, rtt_gain = 4, add = 1, multiply = 2)

# Find the parameter of a scheme that differs from TCP's: add for "rtt_gain=4,add=2,multiply=2".
# TCP's own parameters give a row for each parameter.
single_points <- function(schemes) {
  points <- tidyr::expand_grid(
    scheme = unique(schemes[grepl("^aimd", schemes)]), parameter = names(single_parameters)
  )
  value_of <- function(scheme, name) {
    dplyr::coalesce(scheme_parameter(scheme, name), single_defaults[[name]])
  }
  changed <- vapply(points$scheme, function(scheme) {
    names <- names(single_defaults)
    sum(mapply(value_of, scheme, names) != single_defaults)
  }, 0)
  points |>
    dplyr::mutate(
      value = mapply(value_of, scheme, parameter), changed = changed,
      own = value != single_defaults[parameter]
    ) |>
    dplyr::filter(changed == 0 | (changed == 1 & own)) |>
    dplyr::select(scheme, parameter, value)
}

# Compute power: throughput in Mbit/s over delay in s.
power_of_run <- function(throughput_mbit, signal_delay_ms) 1000 * throughput_mbit / signal_delay_ms

# Compute the range from minimum to maximum, in percent of the mean.
spread_percent <- function(x) 100 * (max(x) - min(x)) / mean(x)

# Name the source's tables and figures whose order can be compared; NA for others.
parts_in_words <- function(exercise, part) {
  words <- c(
    "A runs" = "A: fixed windows", "B table" = "B: AIMD, the table",
    "C thresholds" = "C: delay thresholds", "D first search" = "D: EWMA-BBR, first search",
    "D table" = "D: EWMA-BBR, the table", "D approaches" = "D: BBR and TIMELY"
  )
  unname(words[paste(exercise, part)])
}

# Compute the largest spread, in percent, of the source's runs of one scheme, over all schemes of a
# kind.
source_spread_of <- function(runs, kind) {
  its <- runs[startsWith(runs$scheme, kind), ]
  spreads <- tapply(its$quotient, its$scheme, function(x) {
    if (length(x) > 1) spread_percent(x) else NA
  })
  max_present(spreads)
}

# Drop rows of the AIMD table that copy a run with a single changed parameter: its rows 1 and 14 to
# 19 have the numbers of such a run.
without_copies <- function(runs) {
  copied <- runs$exercise == "B" &
    duplicated(runs[c("exercise", "scheme", "throughput_mbit", "signal_delay_p95_ms")])
  runs[!copied, ]
}

# Get the power of the source's AIMD runs with TCP's own parameters.
plain_runs <- function(runs) {
  own <- without_copies(runs)
  own$quotient[own$scheme == "aimd,rtt_gain=4,add=1,multiply=2"]
}
