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
single_trace_blocks <- c("source-trace", "other-trace")

# Summarise each scheme: the mean of each metric, and the confidence interval of its power. Without
# a block, the scores are over drawn traces, a new one for each replicate.
scheme_scores <- function(summary, blocks = setdiff(summary$block, single_trace_blocks)) {
  wanted <- c(
    throughput = "link_throughput_mbit", queue_delay = "queue_delay_p95_ms",
    signal_delay = "signal_delay_p95_ms", power = "power"
  )
  summary |>
    dplyr::filter(
      statistic_over == "replicates", metric %in% wanted, block %in% blocks
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

# Compare TCP's alpha and beta, which the source calls near their peak, with the measured others, on
# its own trace if that was measured.
alpha_beta_text <- function(scores, own_trace_scores) {
  has_varied <- function(rows) any(grepl("^aimd,(alpha|beta)=", rows$scheme))
  on_own <- has_varied(own_trace_scores)
  if (on_own) scores <- own_trace_scores
  varied <- dplyr::slice_max(
    dplyr::filter(scores, grepl("^aimd,(alpha|beta)=", scheme)), mean_power,
    n = 1, with_ties = FALSE
  )
  usual <- dplyr::filter(scores, scheme == "aimd,rtt_gain=4,add=1,multiply=2")
  if (nrow(varied) == 0 || nrow(usual) == 0) {
    return("This campaign does not vary alpha and beta.")
  }
  usual <- usual[1, ]
  near <- usual$mean_power >= varied$mean_power || isTRUE(usual$high_power >= varied$low_power)
  paste0(
    if (on_own) "On its trace" else "Here",
    ", the best of the other values that we measured has a power of ",
    with_interval(varied$mean_power, varied$low_power, varied$high_power, 1), " (",
    sub("aimd,", "", varied$scheme), "), and TCP's own ",
    with_interval(usual$mean_power, usual$low_power, usual$high_power, 1), ": ",
    if (near) "this does not contradict the source." else "there is a better value."
  )
}

# Say how near the scores on the source's own trace come to the published ones.
on_own_trace_text <- function(own_trace_scores) {
  if (nrow(own_trace_scores) == 0) {
    return(paste(
      "This campaign does not have the source's trace, so the claims on its numbers are not judged."
    ))
  }
  compared <- own_trace_scores[!is.na(own_trace_scores$published_mbit), ]
  middle <- function(ours, theirs) fixed(stats::median(ours / theirs), 2)
  paste0(
    "On the source's own trace, ours over published is ",
    middle(compared$mean_throughput, compared$published_mbit), " for throughput, ",
    middle(compared$mean_signal_delay, compared$published_signal_ms), " for the signal delay, and ",
    middle(compared$mean_power, compared$published_quotient), " for power (medians of ",
    nrow(compared), " schemes, @tbl-cellular-own)."
  )
}
