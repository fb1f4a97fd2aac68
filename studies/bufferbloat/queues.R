# Names of the bottleneck's qdiscs, in the order of figures and tables.
queue_labels <- c(
  fifo = "FIFO", bfifo = "Byte FIFO", "two-fifos" = "Two FIFOs", red = "RED", pie = "PIE",
  codel = "CoDel", fq_codel = "FQ-CoDel", cake = "CAKE"
)

label_queues <- function(queue) {
  factor(queue_labels[queue], levels = queue_labels)
}

label_buffers <- function(buffer_packets) {
  sizes <- sort(unique(buffer_packets))
  factor(paste(buffer_packets, "packets"), levels = paste(sizes, "packets"))
}

label_load <- function(competitor) {
  factor(
    ifelse(competitor == "none", "alone", "loaded"), c("alone", "loaded"),
    c("Alone", "Beside a long-lived flow")
  )
}

# Size of the lab's page (PAGE_BYTES of src/losslab/emulation/apps/web.py) in wget's "KB" of 1024
# bytes.
page_kib <- 177669 / 1024

# Blocks with downloads as in the source: with the lab's link (published-*) and with ours.
web_blocks <- c("published-web", "published-two-queues", "web", "two-queues")

# A page (123 packets) whose slow start ends below this many packets sends most of its packets in
# small windows.
early_packets <- 20

web_runs <- function(replicates) {
  replicates |>
    with_columns("fetch_started_s") |>
    dplyr::filter(valid, app == "web", !is.na(download_s)) |>
    dplyr::mutate(load = dplyr::if_else(competitor == "none", "alone", "loaded"))
}

# Labels of the set-ups, such as "FIFO of 100".
set_up_levels <- c("FIFO of 20", "FIFO of 100", "two FIFOs of 100")

label_set_ups <- function(queue, buffer_packets) {
  factor(
    ifelse(queue == "fifo", paste("FIFO of", buffer_packets), "two FIFOs of 100"), set_up_levels
  )
}
