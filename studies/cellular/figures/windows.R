# Exercise A: throughput over signal delay for fixed windows, and the power of each window.
height_cm <- 7.5
shown <- function(cells) filter(cells, block == "windows")

draw <- function(data) {
  scores <- scheme_scores(data$summary)
  published <- data$published
  windows <- scores |>
    filter(block == "windows") |>
    mutate(window = scheme_parameter(scheme, "window"))
  # Every run of the source; it repeated each window from 10 on.
  theirs <- source_runs(published) |>
    filter(exercise == "A") |>
    mutate(window = scheme_parameter(scheme, "window"), power = quotient)
  panels <- c(metric_titles[["power"]], "Throughput (Mbit/s)", "95 % signal delay (ms)")
  long <- function(data, power, throughput, delay, low, high) {
    tibble::tibble(
      window = rep(data$window, 3),
      panel = factor(rep(panels, each = nrow(data)), panels),
      value = c(data[[power]], data[[throughput]], data[[delay]]),
      low = c(data[[low[1]]], data[[low[2]]], data[[low[3]]]),
      high = c(data[[high[1]]], data[[high[2]]], data[[high[3]]])
    )
  }
  columns <- c("power", "throughput", "signal_delay")
  ours <- long(
    windows, "mean_power", "mean_throughput", "mean_signal_delay", paste0("low_", columns),
    paste0("high_", columns)
  )
  names_of_theirs <- c("power", "throughput_mbit", "signal_delay_p95_ms")
  theirs <- long(
    theirs, names_of_theirs[1], names_of_theirs[2], names_of_theirs[3], names_of_theirs,
    names_of_theirs
  )

  ggplot(ours, aes(window, value)) +
    geom_ribbon(aes(ymin = low, ymax = high), fill = "#0072B2", alpha = 0.2) +
    geom_line(colour = "#0072B2", linewidth = 0.5) +
    geom_point(aes(shape = "ours"), colour = "#0072B2", size = 1.6) +
    geom_point(aes(shape = "published"), data = theirs, size = 1.6, stroke = 0.6, alpha = 0.7) +
    facet_wrap(vars(panel), scales = "free_y") +
    scale_shape_manual(values = c(ours = 16, published = 4), name = NULL) +
    scale_y_continuous(limits = c(0, NA)) +
    labs(x = "Window (packets)", y = NULL) +
    theme_losslab()
}
