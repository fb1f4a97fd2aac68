# Comparison of a long-lived flow's window with CUBIC's formula.

# Linux's constants (net/ipv4/tcp_cubic.c: bic_scale 41 is C = 0.4 / s^3, beta 717 of 1024 keeps 0.7
# of the window), as in RFC 9438, section 4.6.
cubic_c <- 0.4
cubic_keeps <- 0.7

# Compute K of RFC 9438, equation 2: the time in s until the window grows from `w_start` back to
# `w_max` packets.
cubic_k <- function(w_max, w_start) (pmax(w_max - w_start, 0) / cubic_c)^(1 / 3)

# Compute W(t) of RFC 9438, equation 1, in packets, `t` s after growth begins.
cubic_window <- function(t, w_max, k) cubic_c * (t - k)^3 + w_max

# Find the growth phases of a flow's window, one row each: from the minimum window after a reduction
# to the peak before the next one. A phase that the run's end cuts off is omitted.
#
# `w_max` is CUBIC's target: the window before the reduction, or 85 % of it if it was below the last
# `w_max` (fast convergence, RFC 9438, section 4.7).
growth_phases <- function(samples) {
  samples <- samples[order(samples$t_s), ]
  window <- samples$cwnd_packets
  turns <- turning_points(window)
  if (length(turns$start) == 0) {
    return(no_phases)
  }
  start <- turns$start
  # Each start is between two peaks.
  peak <- turns$peak[seq_along(start)]
  end <- turns$peak[seq_along(start) + 1]
  phases <- tibble::tibble(
    cut_s = samples$t_s[peak], peak = window[peak],
    start_s = samples$t_s[start], w_start = window[start],
    end_s = samples$t_s[end], w_end = window[end],
    w_max = target_windows(peak), k_s = cubic_k(w_max, w_start)
  )
  phases$regained_s <- mapply(function(from, to, target) {
    rows <- which(window[from:to] >= target)
    if (length(rows) > 0) samples$t_s[from - 1 + rows[1]] - samples$t_s[from] else NA_real_
  }, start, end, phases$w_max)
  # Root mean square error of the formula over the phase's samples.
  phases$off_percent <- mapply(function(from, to, target, k) {
    formula <- cubic_window(samples$t_s[from:to] - samples$t_s[from], target, k)
    100 * sqrt(mean((formula / window[from:to] - 1)^2))
  }, start, end, phases$w_max, phases$k_s)
  phases
}

# Find a window's peaks and the starts of growth between them. A reduction is larger than this share
# of the window: CUBIC reduces it by 30 %, Reno by 50 %.
cut_share <- 0.15
turning_points <- function(window) {
  peaks <- starts <- integer()
  top <- low <- 1
  falling <- FALSE
  for (i in seq_along(window)) {
    if (!falling) {
      if (window[i] > window[top]) top <- i
      if (window[i] < (1 - cut_share) * window[top]) {
        falling <- TRUE
        peaks <- c(peaks, top)
        low <- i
      }
    } else if (window[i] <= window[low]) {
      low <- i
    } else {
      falling <- FALSE
      starts <- c(starts, low)
      top <- i
    }
  }
  # A start after the last peak begins an incomplete phase.
  list(peak = peaks, start = utils::head(starts, max(length(peaks) - 1, 0)))
}

target_windows <- function(peaks) {
  last <- 0
  vapply(peaks, function(peak) {
    last <<- if (peak < last) peak * (1 + cubic_keeps) / 2 else peak
    last
  }, 0)
}

no_phases <- tibble::tibble(
  cut_s = numeric(), peak = numeric(), start_s = numeric(), w_start = numeric(),
  end_s = numeric(), w_end = numeric(), w_max = numeric(), k_s = numeric(), regained_s = numeric(),
  off_percent = numeric()
)

# Collect the growth phases of each long-lived flow, first replicate.
all_phases <- function(flows) {
  flows |>
    dplyr::filter(block == "long", algorithm %in% c("reno", "cubic")) |>
    dplyr::group_by(algorithm, buffer_packets) |>
    dplyr::group_modify(\(rows, key) growth_phases(rows)) |>
    dplyr::ungroup()
}

# Compare the peaks of CUBIC's window behind a large queue with and without fast convergence: the
# median difference of a peak from the one before it. The first three follow from the start.
peak_steps <- function(flows) {
  flows |>
    dplyr::filter(
      block %in% c("long", "long-plain-target"), algorithm == "cubic", buffer_packets == 100
    ) |>
    dplyr::group_by(block) |>
    dplyr::group_modify(function(rows, key) {
      peaks <- utils::tail(growth_phases(rows)$peak, -3)
      steps <- abs(utils::tail(peaks, -1) / utils::head(peaks, -1) - 1)
      tibble::tibble(n = length(steps), step_percent = 100 * stats::median(steps))
    }) |>
    dplyr::ungroup()
}

# Describe the start of each long-lived flow until its first loss: the window at the end of slow
# start, and a linear fit of the growth from there to twice that window. If slow start ends with the
# loss, the fit covers the whole start.
first_growth <- function(flows) {
  flows |>
    dplyr::filter(block == "long", algorithm %in% c("reno", "cubic")) |>
    dplyr::arrange(t_s) |>
    dplyr::group_by(algorithm, buffer_packets) |>
    dplyr::group_modify(\(rows, key) first_line(rows)) |>
    dplyr::ungroup()
}

first_line <- function(samples) {
  peak <- c(turning_points(samples$cwnd_packets)$peak, nrow(samples))[1]
  samples <- samples[seq_len(peak), ]
  window <- samples$cwnd_packets
  met <- which(!is.na(samples$ssthresh_packets) & window < max(window))
  ended <- if (length(met) > 0) window[met[1]] else NA_real_
  part <- if (is.na(ended)) window > window[1] else window >= ended & window <= 2 * ended
  line <- if (length(unique(window[part])) > 2) stats::lm(window[part] ~ samples$t_s[part])
  tibble::tibble(
    slow_start_ended_packets = ended, first_peak_packets = max(window),
    first_peak_s = samples$t_s[which.max(window)],
    slope_per_s = if (is.null(line)) NA_real_ else stats::coef(line)[[2]],
    straightness = if (is.null(line)) NA_real_ else summary(line)$r.squared
  )
}
