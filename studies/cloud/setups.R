# Names of the two ways to add delay: on the sender's own interface, as published, and on routers.
setup_labels <- c(published = "As published: netem on the sender", routers = "Delay on routers")

label_setups <- function(sender_delay_ms) {
  factor(
    ifelse(sender_delay_ms > 0, setup_labels["published"], setup_labels["routers"]), setup_labels
  )
}

label_losses <- function(loss_percent) {
  levels <- sort(unique(loss_percent))
  factor(paste(loss_percent, "%"), levels = paste(levels, "%"))
}

# Add the curves of the source's log to our samples, as a panel of its own.
with_source <- function(samples, curves, of_app) {
  log_panel <- "The source's log (n\u00a0=\u00a01)"
  theirs <- curves |>
    dplyr::filter(app == of_app, loss_percent %in% samples$loss_percent) |>
    dplyr::mutate(setup = log_panel)
  samples |>
    dplyr::mutate(setup = as.character(label_setups(sender_delay_ms))) |>
    dplyr::bind_rows(theirs) |>
    dplyr::mutate(setup = factor(setup, c(log_panel, setup_labels)))
}

# A row of panels, whose titles may have two lines.
panels_by_setup <- function() {
  ggplot2::facet_wrap(
    ggplot2::vars(setup), nrow = 1, labeller = ggplot2::label_wrap_gen(20)
  )
}

# Congestion windows over time in the source's log and both set-ups, one colour per algorithm.
draw_windows <- function(cwnd, algorithms, since) {
  ends <- line_ends(cwnd, "t_s", "cwnd_packets", "algorithm", "setup", also = 0)
  ggplot2::ggplot(cwnd, ggplot2::aes(t_s, cwnd_packets, colour = algorithm)) +
    ggplot2::geom_step(linewidth = 0.4) +
    panels_by_setup() +
    ggplot2::scale_y_continuous(limits = c(0, NA)) +
    algorithm_scales(algorithms) +
    name_lines(ends, "t_s", "algorithm", \(name) label_algorithms(name, algorithms)) +
    ggplot2::scale_x_continuous(expand = room_for_names(0.42)) +
    ggplot2::labs(x = paste("Time since the", since, "start (s)"), y = window_title) +
    theme_losslab()
}

# Draw the same with a row per algorithm and one colour per loss.
draw_windows_by_loss <- function(cwnd, algorithms) {
  cwnd <- dplyr::mutate(
    cwnd,
    loss = label_losses(loss_percent), label = label_algorithms(algorithm, algorithms)
  )
  ggplot2::ggplot(cwnd, ggplot2::aes(t_s, cwnd_packets, colour = loss)) +
    # Dashes keep overlapping lines visible.
    ggplot2::geom_step(ggplot2::aes(linetype = loss), linewidth = 0.4) +
    ggplot2::scale_linetype_manual(values = c("solid", "62", "32", "12", "6212")) +
    ggplot2::facet_grid(
      rows = ggplot2::vars(label), cols = ggplot2::vars(setup), scales = "free_y",
      labeller = ggplot2::labeller(setup = ggplot2::label_wrap_gen(20))
    ) +
    ggplot2::scale_colour_viridis_d(end = 0.85) +
    wide_keys() +
    ggplot2::labs(
      x = "Time since the flow's start (s)", y = window_title, colour = "Added loss",
      linetype = "Added loss"
    ) +
    theme_losslab()
}

window_title <- "Congestion window (packets)"

# Draw thicker lines in the legend, where thin lines are hard to distinguish.
wide_keys <- function() {
  ggplot2::guides(colour = ggplot2::guide_legend(override.aes = list(linewidth = 1)))
}

# Compute Jain's index of two rates.
jain <- function(a, b) (a + b)^2 / (2 * (a^2 + b^2))

# Steps from the source's set-up to the corrected one.
step_levels <- c(
  log = "Source's log", logged = "As logged", published = "As published",
  large = "Window without limit",
  aggregates = "With offloads", "routers-unpaced" = "Delay on routers, no fq",
  "routers-shallow" = "Delay on routers",
  routers = "Corrected"
)

# Label the step of a cell; NA for other cells.
label_steps <- function(block, receive_buffer, offloads) {
  step <- dplyr::case_when(
    block == "hosts" & offloads == "on" ~ "aggregates",
    block == "hosts" & receive_buffer == "large" ~ "large",
    block == "hosts" ~ NA_character_,
    TRUE ~ block
  )
  factor(unname(step_levels[step]), step_levels)
}
