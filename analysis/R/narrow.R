# Figures redrawn for a phone: as wide as its screen at the same size of print, with the panels
# below one another and the legends' keys in two columns.

narrow_width_cm <- 9

# Minimum height of a panel, height of its title, and of the axis and margins of a plot.
narrow_panel_cm <- 3.4
narrow_title_cm <- 0.8
narrow_rest_cm <- 2

# Width of the panels and of a name's characters, and number of characters below an x axis.
narrow_across_cm <- 7
narrow_character_cm <- 0.17
narrow_label_characters <- 34

# Draw the narrow version of a figure. The arguments are those of `wide_version()`. A figure that is
# not a chart has its own narrow version in the attribute `narrow`.
narrow_version <- function(figure, height_cm, note, builds = builds_of(figure)) {
  narrow_plot <- attr(figure, "narrow")
  if (!is.null(narrow_plot)) {
    return(version_of(narrow_plot$figure, narrow_width_cm, narrow_plot$height_cm))
  }
  if (NROW(figure$data) == 0) {
    return(version_of(empty_figure("", narrow_width_cm), narrow_width_cm, 2.5))
  }
  plots <- plots_of(figure)
  heights_cm <- mapply(stacked_height_cm, plots, builds, height_cm)
  plots <- lapply(plots, stacked)
  figure <- if (length(plots) == 1) {
    plots[[1]]
  } else {
    patchwork::wrap_plots(plots, ncol = 1, heights = heights_cm) +
      patchwork::plot_layout(guides = "collect") &
      ggplot2::theme(legend.position = "top", legend.justification = "left")
  }
  if (note != "") figure <- with_note(figure, note, narrow_width_cm)
  lines <- length(strsplit(wrapped(note, narrow_width_cm), "\n")[[1]])
  version_of(figure, narrow_width_cm, sum(heights_cm) + 0.35 * lines)
}

# Put a plot's panels below one another, and its legends' keys into two columns.
stacked <- function(plot) {
  params <- plot$facet$params
  facets <- unname(c(params$facets, params$rows, params$cols))
  if (length(facets) > 0) {
    plot <- plot + ggplot2::facet_wrap(
      facets,
      ncol = 1, scales = free_scales(params$free),
      labeller = ggplot2::label_wrap_gen(42, multi_line = FALSE)
    )
  }
  built <- ggplot2::ggplot_build(plot)
  for (scale in built$plot$scales$scales) {
    aesthetic <- scale$aesthetics[1]
    guide <- if (is.null(plot$guides[[aesthetic]])) scale$guide else plot$guides[[aesthetic]]
    if (identical(guide, "legend")) guide <- ggplot2::guide_legend()
    if (inherits(guide, "legend")) {
      guide$ncol <- 2
      guide$title.position <- "top"
      plot$guides[[aesthetic]] <- guide
    }
  }
  for (axis in c("x", "y")) {
    title <- plot$labels[[axis]]
    if (is.character(title)) plot$labels[[axis]] <- paste(strwrap(title, 30), collapse = "\n")
  }
  slanted <- function(hjust) ggplot2::element_text(angle = 45, hjust = hjust)
  x_scale <- built$layout$panel_scales_x[[1]]
  if (x_scale$is_discrete() && sum(nchar(x_scale$get_labels())) > narrow_label_characters) {
    plot <- plot + ggplot2::theme(axis.text.x = slanted(1), axis.text.x.top = slanted(0))
  }
  with_room_for_names(plot) +
    ggplot2::theme(legend.box = "vertical", legend.box.just = "left")
}

# Expand the x axis by the width of the longest name at the end of a line.
with_room_for_names <- function(plot) {
  names <- unlist(lapply(plot$layers, \(layer) {
    if ("name_at_end" %in% names(layer$data)) layer$data$name_at_end
  }))
  scale <- plot$scales$get_scales("x")
  if (length(names) == 0 || is.null(scale) || scale$is_discrete()) {
    return(plot)
  }
  width_cm <- narrow_character_cm * max(nchar(names))
  # The original belongs to the wide version, too.
  plot$scales <- plot$scales$clone()
  scale <- plot$scales$get_scales("x")
  scale$expand <- ggplot2::expansion(
    c(0.05, 1.05 * width_cm / (narrow_across_cm - width_cm))
  )
  plot
}

# The `scales` argument of a facet whose parameter `free` is a list of two logical values.
free_scales <- function(free) {
  free <- names(Filter(isTRUE, free))
  if (length(free) == 0) "fixed" else if (length(free) == 2) "free" else paste0("free_", free)
}

# Height of a stacked plot whose wide version has `height_cm`: each panel keeps its height.
stacked_height_cm <- function(plot, built, height_cm) {
  if (is.null(built)) built <- ggplot2::ggplot_build(plot)
  layout <- built$layout$layout
  panel_cm <- max((height_cm - narrow_rest_cm) / max(layout$ROW), narrow_panel_cm)
  title_cm <- if (nrow(layout) > 1) narrow_title_cm else 0
  narrow_rest_cm + nrow(layout) * (panel_cm + title_cm)
}
