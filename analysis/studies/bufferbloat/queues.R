# Names of what a bottleneck does with packets that wait, in the order of figures and tables.
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

# The page of the lab (PAGE_BYTES of src/losslab/emulation/apps/web.py) in wget's "KB" of 1024
# bytes.
page_kib <- 177669 / 1024

# Where a page was fetched as in the source: as it should be, and with the lab's own link.
web_blocks <- c("published-web", "published-two-queues", "web", "two-queues")

# A page of 123 packets whose slow start ends below this many has to send most of itself in windows
# of a handful.
early_packets <- 20

web_runs <- function(replicates) {
  replicates |>
    with_columns("fetch_started_s") |>
    dplyr::filter(valid, app == "web", !is.na(download_s)) |>
    dplyr::mutate(load = dplyr::if_else(competitor == "none", "alone", "loaded"))
}

# "FIFO of 100", as on axes and in tables.
set_up_levels <- c("FIFO of 20", "FIFO of 100", "two FIFOs of 100")

label_set_ups <- function(queue, buffer_packets) {
  factor(
    ifelse(queue == "fifo", paste("FIFO of", buffer_packets), "two FIFOs of 100"), set_up_levels
  )
}
