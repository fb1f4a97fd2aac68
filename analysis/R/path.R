# Drawing of the path of most cells: five hosts, and the position of rate, buffer, delay and loss.

# Format the ranges of a campaign's path parameters, of the cells without a trace if it has any.
path_values <- function(cells) {
  cells <- cells[!is.na(cells$cell), ]
  steady <- cells$trace == "none"
  if (any(steady)) cells <- cells[steady, ]
  of <- function(column, unit) {
    values <- cells[[column]]
    paste(as_text(from_to(min_present(values), max_present(values))), unit)
  }
  list(
    rate = if (any(steady) || nrow(cells) == 0) of("rate_mbit", "Mbit/s") else "that of the trace",
    buffer = of("buffer_packets", "packets"), rtt = of("rtt_ms", "ms"),
    loss = of("loss_percent", "%")
  )
}

path_text <- function(values) {
  paste0(
    "Data go from the sender over routers r1 and r2 to the receiver. r1 has the bottleneck: ",
    values$rate, ", with a buffer of ", values$buffer, ". r2 has half of the RTT, ", values$rtt,
    " in total, and the loss, ", values$loss,
    ". The symmetric reverse path leads over r2 and r1, the ",
    "asymmetric one over r3 and r1; the first router on it has the other half of the RTT."
  )
}

# Draw the path from left to right; the attribute `narrow` has it from top to bottom.
draw_path <- function(values) {
  structure(
    draw_path_across(values),
    narrow = list(figure = draw_path_down(values), height_cm = 10)
  )
}

# Draw hosts and links; `reach` are the limits of both axes.
draw_hosts <- function(hosts, links, notes, reach) {
  ggplot2::ggplot(hosts, ggplot2::aes(x, y)) +
    ggplot2::geom_segment(
      ggplot2::aes(xend = xend, yend = yend, linetype = way, linewidth = width),
      data = links, colour = "grey45"
    ) +
    ggplot2::geom_label(
      ggplot2::aes(label = name),
      family = "DejaVu Sans", size = 3.2, fontface = "bold", fill = "white",
      label.padding = grid::unit(5, "pt"), colour = "#00598c"
    ) +
    ggplot2::geom_text(
      ggplot2::aes(label = text, hjust = hjust),
      data = notes, family = "DejaVu Sans", size = 2.7, lineheight = 1
    ) +
    ggplot2::scale_linewidth_identity() +
    ggplot2::scale_linetype_manual(values = c(forward = "solid", back = "22"), guide = "none") +
    ggplot2::coord_cartesian(xlim = reach$x, ylim = reach$y) +
    ggplot2::theme_void()
}

draw_path_down <- function(values) {
  hosts <- tibble::tibble(
    name = c("sender", "r1", "r2", "receiver", "r3"),
    x = c(0, 0, 0, 0, 2.6), y = c(9, 6.6, 3, 0, 3)
  )
  links <- tibble::tibble(
    x = c(0, 0, 0, 0, 2.6), y = c(9, 6.6, 3, 0, 3), xend = c(0, 0, 0, 2.6, 0),
    yend = c(6.6, 3, 0, 3, 6.6), width = c(0.4, 1.6, 0.4, 0.4, 0.4),
    way = c("forward", "forward", "forward", "back", "back")
  )
  notes <- tibble::tibble(
    x = c(0.3, 1.8, -0.3, 1.7, -0.3), y = c(7.8, 5.6, 4, 0.4, 1.5), hjust = c(0, 0, 1, 0, 1),
    text = c(
      "fq, no shaping",
      paste0("bottleneck:\n", values$rate, "\nits FIFO:\n", values$buffer),
      paste0("half of the RTT\n(", values$rtt, "),\nand the loss\n(", values$loss, ")"),
      "the asymmetric\nreverse path: the other\nhalf of the RTT on r3",
      "the symmetric\nreverse path: the\nsame links, the\nother half of the\nRTT on r2"
    )
  )
  draw_hosts(hosts, links, notes, list(x = c(-3, 5.2), y = c(-0.5, 9.5)))
}

draw_path_across <- function(values) {
  hosts <- tibble::tibble(
    name = c("sender", "r1", "r2", "receiver", "r3"),
    x = c(0, 3.2, 7.4, 10.6, 7.4), y = c(2, 2, 2, 2, 0)
  )
  links <- tibble::tibble(
    x = c(0, 3.2, 7.4, 10.6, 7.4), y = c(2, 2, 2, 2, 0), xend = c(3.2, 7.4, 10.6, 7.4, 3.2),
    yend = c(2, 2, 2, 0, 2), width = c(0.4, 1.6, 0.4, 0.4, 0.4),
    way = c("forward", "forward", "forward", "back", "back")
  )
  notes <- tibble::tibble(
    x = c(5.3, 5.7, 7.4, 7.4, 1.6, 0), y = c(2.32, 1.72, 2.75, -0.55, 2.32, 0.55),
    hjust = c(0.5, 0.5, 0.5, 0.5, 0.5, 0),
    text = c(
      paste0("bottleneck: ", values$rate), paste0("its FIFO: ", values$buffer),
      paste0("half of the RTT (", values$rtt, "), and the loss (", values$loss, ")"),
      "the asymmetric reverse path: the other half of the RTT on r3", "fq, no shaping",
      "the symmetric reverse path:\nthe same links, the other\nhalf of the RTT on r2"
    )
  )
  draw_hosts(hosts, links, notes, list(x = c(-0.8, 11.4), y = c(-0.8, 3)))
}
