# The columns of a cell's axes, from their declarations in src/losslab/study/condition.py.
# Written by `python -m bench.readme --tables`.

# Together with the block, these columns identify a cell.
condition_columns <- c(
  "algorithm", "loss_percent", "path", "app", "rtt_ms", "rate_mbit", "buffer_packets", "offloads",
  "loss_direction", "competitor", "queue", "sender_delay_ms", "trace", "trace_back", "scheme",
  "video", "receive_buffer", "shaper", "sender_queue", "kernel", "parameters", "flows",
  "second_rate_mbit", "write_kib", "start_spread_s", "changes", "pauses", "loss_burst_packets",
  "jitter_ms", "jitter_order", "jitter_direction", "jitter_distribution",
  "jitter_correlation_percent", "reorder_percent", "reorder_ms", "duplicate_percent",
  "ack_thinning", "ack_batch_ms", "data_batch_ms", "reverse_rate_mbit", "reverse_buffer_packets",
  "reverse_queue", "policer_mbit", "policer_burst_packets", "ecn", "mark_packets", "drop_list",
  "trace_start_s", "qdisc", "sysctl", "initcwnd_packets", "initrwnd_packets", "window_bytes",
  "mtu_bytes", "ip_version", "sender_command", "receiver_command", "listens", "bring", "size_kb",
  "app_rate_mbit", "app_pattern", "response_kb", "request_bytes", "think_ms", "requests", "env",
  "testcase", "until", "competitor_sender_command", "competitor_receiver_command",
  "competitor_listens", "image", "duration_s", "warmup_s"
)

# Text columns; the others are numeric.
condition_words <- c(
  "algorithm", "path", "app", "offloads", "loss_direction", "competitor", "queue", "trace",
  "trace_back", "scheme", "video", "receive_buffer", "shaper", "sender_queue", "kernel",
  "parameters", "flows", "changes", "pauses", "jitter_order", "jitter_direction",
  "jitter_distribution", "reverse_queue", "ecn", "drop_list", "qdisc", "sysctl", "sender_command",
  "receiver_command", "listens", "bring", "app_pattern", "env", "testcase", "until",
  "competitor_sender_command", "competitor_receiver_command", "competitor_listens", "image"
)
