# The source's runs, with the power that follows from a run's throughput and delay.

source_runs <- function(published) {
  published |>
    dplyr::filter(!is.na(throughput_mbit)) |>
    dplyr::mutate(quotient = 1000 * throughput_mbit / signal_delay_p95_ms)
}

# One row per scheme, of any exercise: the means over its runs, and the power that the text states.
source_scores <- function(published) {
  stated <- published |>
    dplyr::filter(!is.na(power)) |>
    dplyr::distinct(scheme, stated_power = power)
  # A delay that stands in the text without a throughput has no power.
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

# The parameters of TCP, of which the source varied one at a time.
single_parameters <- c(
  alpha = "alpha", beta = "beta", rtt_gain = "gain", add = "growth", multiply = "decrease"
)
single_defaults <- c(alpha = 0.125, beta = 0.25, rtt_gain = 4, add = 1, multiply = 2)

# "rtt_gain=4,add=2,multiply=2" as a row for what is not TCP's, here add; the plain one as a row for
# each parameter.
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

# Throughput in Mbit/s over delay in s.
power_of_run <- function(throughput_mbit, signal_delay_ms) 1000 * throughput_mbit / signal_delay_ms

# From the least to the largest, in percent of the mean.
spread_percent <- function(x) 100 * (max(x) - min(x)) / mean(x)

# The source's tables and figures whose order can be compared; NA of the others.
parts_in_words <- function(exercise, part) {
  words <- c(
    "A runs" = "A: fixed windows", "B table" = "B: AIMD, the table",
    "C thresholds" = "C: delay thresholds", "D first search" = "D: EWMA-BBR, first search",
    "D table" = "D: EWMA-BBR, the table", "D approaches" = "D: BBR and TIMELY"
  )
  unname(words[paste(exercise, part)])
}

# By how many percent the source's own runs of one scheme are apart, at most, of a kind of scheme.
source_spread_of <- function(runs, kind) {
  its <- runs[startsWith(runs$scheme, kind), ]
  most(tapply(its$quotient, its$scheme, function(x) if (length(x) > 1) spread_percent(x) else NA))
}

# Its runs of AIMD with TCP's own parameters.
plain_runs <- function(runs) {
  runs$quotient[runs$scheme == "aimd,rtt_gain=4,add=1,multiply=2"]
}
