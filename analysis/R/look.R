# One look for every figure: theme, algorithms' colours and shapes, file formats.

figure_width_cm <- 16

theme_losslab <- function() {
  ggplot2::theme_minimal(base_size = 10, base_family = "DejaVu Sans") +
    ggplot2::theme(
      panel.grid.minor = ggplot2::element_blank(),
      panel.border = ggplot2::element_rect(fill = NA, colour = "grey75", linewidth = 0.3),
      strip.text = ggplot2::element_text(face = "bold", hjust = 0),
      legend.position = "top",
      legend.justification = "left",
      plot.margin = ggplot2::margin(4, 8, 4, 4)
    )
}

algorithm_scales <- function(algorithms) {
  list(
    ggplot2::scale_colour_manual(
      breaks = algorithms$name,
      values = stats::setNames(algorithms$colour, algorithms$name),
      labels = stats::setNames(algorithms$label, algorithms$name)
    ),
    ggplot2::scale_fill_manual(
      breaks = algorithms$name,
      values = stats::setNames(algorithms$colour, algorithms$name),
      labels = stats::setNames(algorithms$label, algorithms$name)
    ),
    ggplot2::scale_shape_manual(
      breaks = algorithms$name,
      values = stats::setNames(algorithms$shape, algorithms$name),
      labels = stats::setNames(algorithms$label, algorithms$name)
    ),
    ggplot2::labs(colour = NULL, fill = NULL, shape = NULL)
  )
}

path_labels <- c(symmetric = "Symmetric path", asymmetric = "Asymmetric path")

label_paths <- function(path) {
  factor(path_labels[path], levels = path_labels)
}

log_mbit <- function() {
  ggplot2::scale_y_log10(
    breaks = c(1, 3, 10, 30, 100, 300, 1000),
    labels = scales::label_number(accuracy = 1, big.mark = "")
  )
}

# Save a figure under each of the paths: SVG with text as paths, PNG at 200 dpi, PDF.
save_figure <- function(figure, paths, height_cm) {
  devices <- list(svg = grDevices::svg, pdf = grDevices::cairo_pdf, png = ragg::agg_png)
  for (path in paths) {
    format <- tools::file_ext(path)
    ggplot2::ggsave(
      path,
      plot = figure, device = devices[[format]], width = figure_width_cm, height = height_cm,
      units = "cm", dpi = 200, bg = "white"
    )
  }
}

# Send a script's words to its log, and load the function files that its rule names.
open_log <- function(path) {
  connection <- file(path, open = "wt")
  sink(connection)
  sink(connection, type = "message")
}
