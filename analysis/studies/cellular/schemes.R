# User-space schemes over a trace-driven link: names, parameters and scores.

# Get the value of a parameter of a scheme such as "ewma,alpha=0.9"; NA if it has none of that name.
scheme_parameter <- function(scheme, name) {
  found <- regmatches(scheme, regexec(paste0("[,]", name, "=([0-9.]+)"), scheme))
  vapply(found, function(match) if (length(match) == 2) as.numeric(match[2]) else NA_real_, 0)
}

scheme_kinds <- c(
  fixed = "Fixed window", aimd = "AIMD", threshold = "Delay threshold", bbr = "BBR of the source",
  timely = "TIMELY", ewma = "EWMA-BBR"
)

label_schemes <- function(scheme, algorithm, queue) {
  kind <- sub(",.*", "", scheme)
  names <- dplyr::if_else(algorithm == "reno", "Reno", toupper(algorithm))
  dplyr::if_else(
    kind == "none", paste0("kernel ", names, dplyr::if_else(queue == "codel", ", CoDel", "")),
    unname(scheme_kinds[kind])
  )
}

# Blocks whose runs all have the same trace.
single_trace_blocks <- c("source-trace", "one-trace")

# Summarise each scheme: the mean of each metric, and the confidence interval of its power.
# The scores are over drawn traces, a new one for each replicate. Those on the source's own are in
# the agreement factors, and those on a single drawn one show the cause of the scatter.
scheme_scores <- function(summary) {
  wanted <- c(
    throughput = "link_throughput_mbit", queue_delay = "queue_delay_p95_ms",
    signal_delay = "signal_delay_p95_ms", power = "power"
  )
  summary |>
    dplyr::filter(
      statistic_over == "replicates", metric %in% wanted, !block %in% single_trace_blocks
    ) |>
    dplyr::mutate(
      metric = names(wanted)[match(metric, wanted)],
      label = label_schemes(scheme, algorithm, queue)
    ) |>
    dplyr::select(
      block, scheme, algorithm, queue, label, metric, n, mean, low = mean_low, high = mean_high
    ) |>
    by_metric(names(wanted), c("mean", "low", "high")) |>
    # Omit schemes without power.
    dplyr::filter(!is.na(mean_power))
}

# Find the block with the best scheme of each kind, by mean power.
best_of_each <- function(scores) {
  scores |>
    dplyr::group_by(label) |>
    dplyr::slice_max(mean_power, n = 1, with_ties = FALSE) |>
    dplyr::ungroup()
}
