# A plausible condition; tests change the axes that they need.
condition <- tibble::tibble(
  study = "loss", block = "main", algorithm = "cubic", loss_percent = 1, path = "symmetric",
  app = "iperf3", rtt_ms = 0.4, rate_mbit = 1000, buffer_packets = 1000, offloads = "off",
  loss_direction = "data", competitor = "none", queue = "fifo", sender_delay_ms = 0,
  trace = "none", scheme = "none", video = "720p", receive_buffer = "linux", shaper = "link",
  sender_queue = "fq", trace_back = "none", duration_s = 5, warmup_s = 1,
  error_share = 1
)
# Axes that no test uses.
for (axis in setdiff(condition_columns, names(condition))) {
  condition[[axis]] <- if (axis %in% condition_words) "any" else 0
}

# Return rows of `condition` with other values in the named columns.
conditions <- function(...) {
  changed <- tibble::tibble(...)
  rows <- condition[rep(1, nrow(changed)), ]
  rows[names(changed)] <- changed
  rows
}
