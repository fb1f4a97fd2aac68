# Which RTT and offload setting explains the published curve of CUBIC?
height_cm <- 10
shown <- function(cells) filter(cells, block == "sensitivity")

draw <- function(data) {
  measured <- sensitivity_cells(data$summary) |>
    mutate(
      offloads = factor(offloads, c("off", "on"), c("Offloads off", "Offloads on")),
      rtt = factor(paste(rtt_ms, "ms"), levels = paste(sort(unique(rtt_ms)), "ms"))
    )
  published <- data$published |>
    filter(algorithm == "cubic", path == "symmetric", loss_percent > 0)

  ends <- line_ends(measured, "loss_percent", "mean", "rtt", "offloads", log_y = TRUE)

  ggplot(measured, aes(loss_percent, mean)) +
    geom_line(aes(colour = rtt)) +
    geom_point(aes(colour = rtt), size = 1.4) +
    geom_line(aes(linetype = "published (RTT not stated)"), data = published, linewidth = 0.8) +
    facet_wrap(vars(offloads)) +
    name_lines(ends, "loss_percent", "rtt", \(rtt) paste(rtt, "RTT")) +
    scale_x_continuous(breaks = c(1, 2, 5, 10), expand = room_for_names(0.5)) +
    log_mbit() +
    scale_colour_viridis_d(end = 0.9) +
    scale_linetype_manual(values = "22") +
    labs(x = "Packet loss (%)", y = "CUBIC's goodput (Mbit/s)", linetype = NULL) +
    theme_losslab()
}
