# CUBIC's goodput over time with a shallow buffer, with and without fq on the sender, and from
# second 1 to 10 in the replication's logs.
height_cm <- 8.5
shown <- function(cells) {
  filter(cells, block %in% c("shallow", unpaced_block), algorithm == "cubic", rate_mbit == 250)
}

draw <- function(data) {
  ours <- data$intervals |>
    filter(
      block %in% c("shallow", unpaced_block), algorithm == "cubic", rate_mbit == 250
    ) |>
    mutate(sender = ifelse(sender_queue == "fq", "fq: paced", "FQ-CoDel: not paced")) |>
    group_by(sender, t_s) |>
    summarise(
      least = min(goodput_mbit), most = max(goodput_mbit), goodput_mbit = mean(goodput_mbit),
      .groups = "drop"
    )
  log <- data$published |>
    filter(startsWith(source, "datta2023"), !is.na(from_s), rate_mbit == 250)

  ends <- line_ends(ours, "t_s", "goodput_mbit", "sender", gap = 0.06, also = 0)

  ggplot(ours, aes(t_s, goodput_mbit)) +
    geom_ribbon(aes(ymin = least, ymax = most, fill = sender), alpha = 0.25) +
    geom_line(aes(colour = sender), linewidth = 0.6) +
    geom_segment(
      aes(from_s, cubic_mbit, xend = to_s, yend = cubic_mbit, linetype = "replication's logs"),
      data = log, linewidth = 0.8
    ) +
    scale_colour_manual(values = sender_colours, aesthetics = c("colour", "fill"), name = NULL) +
    name_lines(ends, "t_s", "sender") +
    scale_x_continuous(expand = room_for_names(0.45)) +
    scale_linetype_manual(values = "21", name = NULL) +
    scale_y_continuous(limits = c(0, NA)) +
    labs(x = "End of the interval (s)", y = "CUBIC's goodput (Mbit/s)") +
    theme_losslab()
}

sender_colours <- c("fq: paced" = "#0072B2", "FQ-CoDel: not paced" = "#CC79A7")
