# Formulas that an accurate instrument reproduces, and metrics to compare with them.

# Size of a full segment with its Ethernet header, as the bottleneck counts it, with the default MTU
# (src/losslab/study/packetsizes.py), and its payload: without the headers of Ethernet (14 bytes),
# IP (20) and TCP (20, with timestamps of 12).
frame_bytes <- 1514
payload_bytes <- frame_bytes - 14 - 20 - 20 - 12

# Compute the maximum goodput at a bottleneck's rate, in Mbit/s.
theoretical_goodput <- function(rate_mbit, mtu_bytes = 1500, ip_bytes = 20) {
  rate_mbit * (mtu_bytes - ip_bytes - 20 - 12) / (mtu_bytes + 14)
}

# Compute the bandwidth-delay product in packets of the bottleneck.
bdp_packets <- function(rate_mbit, rtt_ms) {
  rate_mbit * 1e6 * rtt_ms / 1e3 / 8 / frame_bytes
}

# Bytes on the wire of a payload in full segments and one that may be shorter.
wire_bytes <- function(payload) {
  # A size in kB may not be a whole number of bytes.
  segments <- ceiling(payload / payload_bytes - 1e-9)
  payload + segments * (frame_bytes - payload_bytes)
}

# SYN and the first acknowledgement, which pass the bottleneck before the data.
handshake_bytes <- 74 + 66

# Time in seconds that physics gives a transfer whose window is larger than its size: the handshake,
# half an RTT, and the bytes at the rate.
transfer_s <- function(size_kb, rate_mbit, rtt_ms) {
  1.5 * rtt_ms / 1e3 + (handshake_bytes + wire_bytes(1e3 * size_kb)) * 8 / 1e6 / rate_mbit
}

# The same of a response on an open connection, from the request.
response_s <- function(response_kb, rate_mbit, rtt_ms) {
  rtt_ms / 1e3 + wire_bytes(1e3 * response_kb) * 8 / 1e6 / rate_mbit
}

# Time of a ping of 98 bytes (over IPv6 118) on an exact link, in ms. A token bucket sends it at
# once.
ping_ms <- function(shaper, trace, rate_mbit, ip_version) {
  of_link <- shaper == "link" & trace == "none"
  ifelse(of_link, (98 + 20 * (ip_version == 6)) * 8 / 1e3 / rate_mbit, 0)
}

# Mathis et al., CCR 27(3), 1997: Reno under independent loss p, in Mbit/s. The constant is that of
# one acknowledged packet per window's growth, as Linux counts (tcp_reno_cong_avoid).
mathis_mbit <- function(p, rtt_s) {
  payload_bytes * 8 / 1e6 * sqrt(3 / 2) / (rtt_s * sqrt(p))
}

# A window that grows by alpha packets per RTT and shrinks to beta of itself, in Mbit/s: Yang and
# Lam, General AIMD Congestion Control, ICNP 2000, with every packet acknowledged; with 1 and 1/2 it
# is Padhye et al., SIGCOMM 1998, equation 30, for Reno. Linux' retransmission timeout is the RTT
# and at least 200 ms of margin (tcp_rto_min, net/ipv4/tcp_input.c).
padhye_mbit <- function(p, rtt_s, alpha = 1, beta = 1 / 2) {
  timeout_s <- rtt_s + 0.2
  packets_per_s <- 1 / (
    rtt_s * sqrt(2 * (1 - beta) * p / (alpha * (1 + beta))) +
      timeout_s * pmin(1, 3 * sqrt((1 - beta^2) * p / (2 * alpha))) * p * (1 + 32 * p^2)
  )
  payload_bytes * 8 / 1e6 * packets_per_s
}

# Mean window of CUBIC with random losses over that with equally spaced losses of the same rate. It
# depends on neither the rate nor the RTT (Poojary and Sharma 2016: 1.3004 over 1.0538 without fast
# convergence). With Linux's fast convergence it is smaller; a test computes both.
random_loss_gain <- 1.13

# RFC 9438, section 5.1, equation 5 with C = 0.4 and beta = 0.7, in Mbit/s: equally spaced losses.
# It holds where the window is larger than that of Reno.
cubic_mbit <- function(p, rtt_s) {
  window <- (0.4 * (3 + 0.7) / (4 * (1 - 0.7)))^(1 / 4) * (rtt_s / p)^(3 / 4)
  payload_bytes * 8 / 1e6 * window / rtt_s
}

# Packets of one of BBR's bursts at a rate: a millisecond (sk_pacing_shift of 10), at least two
# packets and at most 64 KiB less headers (bbr_tso_segs_goal, net/ipv4/tcp_bbr.c).
bbr_burst_packets <- function(rate_mbit) {
  payload <- theoretical_goodput(rate_mbit) * bbr_pacing_margin * 1e6 / 8 / 1024
  pmin(pmax(payload %/% payload_bytes, 2), (65536 - 1 - 320) %/% payload_bytes)
}

# BBR paces at 1 % less than its estimate of the bandwidth (bbr_pacing_margin_percent).
bbr_pacing_margin <- 0.99

# Compute BBR's window without aggregated acknowledgements: two bandwidth-delay products and three
# bursts, rounded up to an even number (bbr_bdp, bbr_quantization_budget, net/ipv4/tcp_bbr.c).
bbr_window_packets <- function(rate_mbit, rtt_ms) {
  window <- ceiling(2 * bdp_packets(rate_mbit, rtt_ms)) + 3 * bbr_burst_packets(rate_mbit)
  2 * ceiling(window / 2)
}

# Share of a link that a loss-based flow gets beside a BBR flow, over a buffer of some
# bandwidth-delay products: Ware et al., IMC 2019, without the time in which BBR probes the RTT.
ware_share <- function(buffer_bdp, buffer_packets) {
  1 / 2 - 1 / (2 * buffer_bdp) - 4 / buffer_packets
}

# Compute the model goodput of an algorithm under random loss; NA if there is no model.
response_mbit <- function(algorithm, p, rtt_s) {
  dplyr::case_when(
    p <= 0 ~ NA_real_,
    algorithm == "reno" ~ padhye_mbit(p, rtt_s),
    # The example in the folder algorithms.
    algorithm == "gaimd" ~ padhye_mbit(p, rtt_s, beta = 7 / 8),
    algorithm == "cubic" ~ random_loss_gain * cubic_mbit(p, rtt_s),
    TRUE ~ NA_real_
  )
}

# Add derived metrics to replicates.
derive_metrics <- function(replicates) {
  replicates |>
    dplyr::mutate(
      rtt_error_percent = 100 * abs(
        rtt_measured_ms / (rtt_ms + ping_ms(shaper, trace, rate_mbit, ip_version)) - 1
      ),
      utilisation_percent = 100 * total_goodput_mbit / theoretical_goodput(rate_mbit),
      model_ratio = goodput_mbit / response_mbit(algorithm, loss_percent / 100, rtt_ms / 1e3),
      queue_mean_bdp = queue_mean_packets / bdp_packets(rate_mbit, rtt_ms),
      transfer_excess_packets = dplyr::case_when(
        app != "stream" ~ NA_real_,
        size_kb > 0 ~ completion_s - transfer_s(size_kb, rate_mbit, rtt_ms),
        response_kb > 0 ~ response_median_ms / 1e3 - response_s(response_kb, rate_mbit, rtt_ms)
      ) * rate_mbit * 1e6 / 8 / frame_bytes
    )
}

# Compare the losses of each cell, pooled over its valid replicates, with the binomial distribution:
# z is the distance from the expected number in standard errors.
pooled_loss <- function(replicates) {
  replicates |>
    dplyr::filter(valid, loss_percent > 0) |>
    dplyr::group_by(cell, algorithm, loss_percent, rtt_ms) |>
    dplyr::summarise(
      offered = sum(loss_offered_packets), lost = sum(loss_packets), .groups = "drop"
    ) |>
    dplyr::mutate(
      p = loss_percent / 100,
      z = (lost - p * offered) / sqrt(offered * p * (1 - p))
    )
}
