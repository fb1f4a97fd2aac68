# Common style of all figures: theme, algorithms' colours and shapes, file formats.

figure_width_cm <- 16

theme_losslab <- function() {
  ggplot2::theme_minimal(base_size = 10, base_family = "DejaVu Sans") +
    ggplot2::theme(
      panel.grid.minor = ggplot2::element_blank(),
      panel.border = ggplot2::element_rect(fill = NA, colour = "grey75", linewidth = 0.3),
      strip.text = ggplot2::element_text(face = "bold", hjust = 0),
      legend.position = "top",
      legend.justification = "left",
      # Beside the panels, without empty lines above and below.
      legend.margin = ggplot2::margin(0, 0, 0, 0),
      legend.box.spacing = grid::unit(5, "pt"),
      plot.margin = ggplot2::margin(4, 8, 4, 4)
    )
}

# A small figure of the first page.
theme_finding <- function() {
  theme_losslab() +
    ggplot2::theme(
      text = ggplot2::element_text(size = 8), plot.margin = ggplot2::margin(5, 4, 2, 2)
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

label_algorithms <- function(algorithm, algorithms) {
  stats::setNames(algorithms$label, algorithms$name)[algorithm]
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

# Format the breaks of an axis with negative numbers: a minus sign instead of a hyphen.
signed_labels <- function(breaks) sub("-", "\u2212", format(breaks, trim = TRUE))

# Save a figure under each of the paths: SVG with searchable text, PNG at 200 dpi, PDF. A path that
# ends in `.narrow.svg` gets the figure redrawn for a phone. Return the built plots of the figure.
#
# `missing` are its cells without a valid result (`missing_cells()`); a note below the figure names
# them. A figure without any data is only a note.
save_figure <- function(figure, paths, height_cm, missing, width_cm = figure_width_cm) {
  note <- missing_note(missing)
  builds <- builds_of(figure)
  devices <- list(svg = svglite::svglite, pdf = grDevices::cairo_pdf, png = ragg::agg_png)
  versions <- list(wide = wide_version(figure, height_cm, note, width_cm, builds))
  if (any(is_narrow(paths))) {
    versions$narrow <- narrow_version(figure, height_cm, note, builds)
  }
  for (path in paths) {
    version <- versions[[if (is_narrow(path)) "narrow" else "wide"]]
    ggplot2::ggsave(
      path,
      plot = version$drawing, device = devices[[tools::file_ext(path)]],
      width = version$width_cm, height = version$height_cm, units = "cm", dpi = 200, bg = "white"
    )
  }
  invisible(builds)
}

# Build the plots of a figure, which takes long; NULL for a plot without data.
builds_of <- function(figure) {
  lapply(plots_of(figure), \(plot) if (NROW(plot$data) > 0) ggplot2::ggplot_build(plot))
}

is_narrow <- function(path) endsWith(path, ".narrow.svg")

wide_version <- function(figure, height_cm, note, width_cm, builds) {
  if (NROW(figure$data) == 0) {
    return(version_of(empty_figure(note), figure_width_cm, empty_height_cm(note)))
  }
  if (inherits(figure, "patchwork")) {
    if (note != "") figure <- with_note(figure, note, width_cm)
    return(version_of(figure, width_cm, height_cm))
  }
  built <- builds[[1]]
  if (note != "") {
    # Adding to a built plot would reset its scales, and so remove its legend.
    built$plot$labels$caption <- wrapped(note, width_cm)
    built$plot$theme <- built$plot$theme + note_style()
  }
  version_of(figure, width_cm, height_cm, built)
}

# A version of a figure with its size. `drawing` is evaluated on the first open device, which
# determines the width of text; the other formats have the same layout.
version_of <- function(figure, width_cm, height_cm, built = ggplot2::ggplot_build(figure)) {
  version <- new.env()
  version$width_cm <- width_cm
  version$height_cm <- height_cm
  delayedAssign("drawing", {
    if (inherits(figure, "patchwork")) {
      patchwork::patchworkGrob(figure)
    } else {
      ggplot2::ggplot_gtable(built)
    }
  }, assign.env = version)
  version
}

note_style <- function() {
  ggplot2::theme(
    plot.caption = ggplot2::element_text(
      family = "DejaVu Sans", size = 7, colour = "grey30", hjust = 0
    ),
    plot.caption.position = "plot"
  )
}

# Break text into lines of about as many characters as fit below a figure.
wrapped <- function(text, width_cm = figure_width_cm) {
  paste(strwrap(text, 6.5 * width_cm), collapse = "\n")
}

# What a figure without data says; the report does not print it (exhibits.R).
nothing_to_draw <- "Nothing to draw:"

with_note <- function(figure, note, width_cm = figure_width_cm) {
  text <- wrapped(note, width_cm)
  if (inherits(figure, "patchwork")) {
    return(figure + patchwork::plot_annotation(caption = text, theme = note_style()))
  }
  figure + ggplot2::labs(caption = text) + note_style()
}

empty_text <- function(note, width_cm = figure_width_cm) {
  wrapped(trimws(paste(
    nothing_to_draw, "this campaign has too few of its cells, or they do not differ.", note
  )), width_cm)
}

empty_figure <- function(note, width_cm = figure_width_cm) {
  ggplot2::ggplot() +
    ggplot2::annotate(
      "text", 0, 0,
      label = empty_text(note, width_cm), size = 3, family = "DejaVu Sans"
    ) +
    ggplot2::theme_void()
}

# Height of a note: 0.5 cm for each line of 8.5 points, and 1 cm for the margins.
empty_height_cm <- function(note) 1 + 0.5 * length(strsplit(empty_text(note), "\n")[[1]])
