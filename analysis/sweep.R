# Draw a sweep's cells (`losslab sweep`): means with confidence intervals.

# Lines are algorithms, in the report's colours, or values of another axis.
line_scales <- function(lines, algorithms) {
  if (all(lines %in% algorithms$name)) {
    return(algorithm_scales(algorithms))
  }
  list(scale_shape_manual(values = seq_along(unique(lines))), labs(colour = NULL, shape = NULL))
}

height_cm <- 9

read <- function(path) {
  readr::read_csv(
    path,
    col_types = readr::cols(
      line = "c", panel = "c", x_label = "c", y_label = "c", .default = "d"
    )
  )
}

draw <- function(cells, algorithms) {
  cells <- filter(cells, !is.na(mean))
  across <- !all(is.na(cells$x))
  if (!across) cells$x <- 0
  one_metric <- n_distinct(cells$y_label) == 1
  counts <- paste(unique(range(cells$n_values)), collapse = "-")
  figure <- ggplot(cells, aes(x, mean, colour = line, group = line)) +
    geom_linerange(
      aes(ymin = low, ymax = high), position = position_dodge(if (across) 0 else 0.5),
      na.rm = TRUE
    ) +
    geom_point(
      aes(shape = line), size = 2, position = position_dodge(if (across) 0 else 0.5)
    ) +
    line_scales(cells$line, algorithms) +
    expand_limits(y = 0) +
    labs(x = if (across) cells$x_label[1], y = if (one_metric) cells$y_label[1]) +
    theme_losslab()
  if (across) {
    ends <- line_ends(cells, "x", "mean", "line", "panel", gap = 0.06)
    of_algorithms <- all(cells$line %in% algorithms$name)
    label <- \(line) if (of_algorithms) label_algorithms(line, algorithms) else line
    figure <- figure + geom_line(linewidth = 0.5) + scale_x_continuous(expand = room_for_names())
    if (n_distinct(cells$line) > 1) figure <- figure + name_lines(ends, "x", "line", label)
  } else {
    figure <- figure + scale_x_continuous(breaks = NULL)
  }
  if (n_distinct(cells$panel) > 1) {
    figure <- figure + facet_wrap(vars(panel), scales = if (one_metric) "fixed" else "free_y")
  }
  if (n_distinct(cells$line) == 1 && !all(cells$line %in% algorithms$name)) {
    figure <- figure + guides(colour = "none", shape = "none")
  }
  none <- all(is.na(cells$low))
  intervals <- if (none) "." else "; vertical lines: their 95 % confidence intervals."
  with_note(figure, paste0("Means of runs with different seeds, n = ", counts, " each", intervals))
}
