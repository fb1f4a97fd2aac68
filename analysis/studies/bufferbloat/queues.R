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
