# The data of a figure as a table, and its alternative text.

# List the plots of a figure.
plots_of <- function(figure) {
  if (!inherits(figure, "patchwork")) {
    return(list(figure))
  }
  alone <- figure
  class(alone) <- setdiff(class(figure), "patchwork")
  Filter(\(plot) length(plot$layers) > 0, c(figure$patches$plots, list(alone)))
}

# Collect the data of a figure's plots and layers in one table. Constant columns that the figure
# does not draw are omitted.
figure_data <- function(figure) {
  tables <- unlist(lapply(plots_of(figure), function(plot) {
    layer_tables <- lapply(plot$layers, \(layer) if (is.data.frame(layer$data)) layer$data)
    # The positions of line names are not data.
    layer_tables <- Filter(\(data) !"name_at_end" %in% names(data), layer_tables)
    Filter(\(data) is.data.frame(data) && nrow(data) > 0, c(list(plot$data), layer_tables))
  }), recursive = FALSE)
  if (length(tables) == 0) {
    return(tibble::tibble(drawn_as = integer()))
  }
  tables <- lapply(seq_along(tables), function(number) {
    as_plain <- \(x) if (is.numeric(x) || is.logical(x)) x else as.character(x)
    tables[[number]] |>
      dplyr::ungroup() |>
      dplyr::select(tidyselect::where(\(x) is.atomic(x) && is.null(dim(x)))) |>
      dplyr::mutate(dplyr::across(dplyr::everything(), as_plain), drawn_as = number)
  })
  # A column that is numeric in one table and text in another becomes text.
  words <- unlist(lapply(tables, \(rows) names(rows)[vapply(rows, is.character, TRUE)]))
  rows <- dplyr::bind_rows(lapply(tables, function(rows) {
    dplyr::mutate(rows, dplyr::across(dplyr::any_of(words), as.character))
  }))
  varies <- vapply(rows, \(x) length(unique(x[!is.na(x)])) > 1, TRUE)
  unique(rows[varies | !names(rows) %in% c(cell_columns, "drawn_as")])
}

# Write a figure's data, its cells and its alternative text to three paths.
describe_in_files <- function(figure, cells, paths, builds) {
  write_table(figure_data(figure), paths[1])
  write_table(dplyr::filter(cells[c("study", "block", "cell", "n_valid")], !is.na(cell)), paths[2])
  writeLines(describe_figure(figure, builds), paths[3])
}

# Write a figure's alternative text from the drawn data.
describe_figure <- function(figure, builds = suppressWarnings(builds_of(figure))) {
  words <- mapply(describe_plot, plots_of(figure), builds)
  said <- paste(words[words != ""], collapse = " ")
  if (said == "") "Nothing is drawn." else said
}

describe_plot <- function(plot, built) {
  if (NROW(plot$data) == 0) {
    return("")
  }
  panels <- built$layout$layout
  facets <- panels[setdiff(names(panels), c("PANEL", "ROW", "COL", "SCALE_X", "SCALE_Y", "COORD"))]
  titles <- gsub("\n", " ", do.call(paste, c(lapply(facets, as.character), sep = " / ")))
  axes <- c(
    describe_axis("Across", plot$labels$x, built$layout$panel_scales_x),
    describe_axis("Upwards", plot$labels$y, built$layout$panel_scales_y)
  )
  paste(c(
    axes, if (nrow(panels) > 1) paste0("Panels: ", enumerate(titles, 12), "."),
    describe_colours(built, if (nrow(panels) > 1) titles else "")
  ), collapse = " ")
}

# Describe an axis: "Across: Packet loss (%), 0 to 10."
describe_axis <- function(where, title, scales) {
  values <- lapply(scales, function(scale) {
    if (scale$is_discrete()) {
      return(scale$get_limits())
    }
    scale$trans$inverse(scale$range$range)
  })
  title <- if (is.character(title)) gsub("\n", " ", title)
  extent <- unlist(values)
  if (length(extent) == 0) {
    return(NULL)
  }
  shown <- if (is.numeric(extent)) {
    from_to(min(extent), max(extent), 3)
  } else {
    enumerate(unique(extent))
  }
  paste0(where, ": ", paste(c(title, shown), collapse = ", "), ".")
}

# Describe the first and last points of each colour in each panel, or its range of values if there
# are many points.
describe_colours <- function(built, titles) {
  scale <- built$plot$scales$get_scales("colour")
  if (is.null(scale)) scale <- built$plot$scales$get_scales("fill")
  if (is.null(scale) || !scale$is_discrete()) {
    return(NULL)
  }
  aesthetic <- intersect(c("colour", "fill"), scale$aesthetics)[1]
  has <- vapply(built$data, function(rows) {
    all(c("x", "y", aesthetic) %in% names(rows)) &&
      any(is.finite(rows$y) & !is.na(rows[[aesthetic]]))
  }, TRUE)
  if (!any(has)) {
    return(NULL)
  }
  points <- built$data[[which(has)[1]]]
  breaks <- scale$get_breaks()
  breaks <- breaks[!is.na(breaks)]
  names <- stats::setNames(as.character(scale$get_labels(breaks)), scale$map(breaks))
  points$name <- names[as.character(points[[aesthetic]])]
  points <- points[!is.na(points$name) & is.finite(points$x) & is.finite(points$y), ]
  along_y <- built$layout$panel_scales_x[[1]]$is_discrete() ||
    built$layout$panel_scales_y[[1]]$is_discrete()
  words <- lapply(split(points, list(points$PANEL, points$name), drop = TRUE), function(rows) {
    panel <- as.integer(rows$PANEL[1])
    place <- paste0(" (", titles[panel], ")")
    if (identical(titles, "") || length(titles) > 6) place <- ""
    paste0(rows$name[1], place, ": ", describe_points(rows, built$layout, panel, along_y), ".")
  })
  if (length(words) <= 12) paste(unlist(words), collapse = " ")
}

describe_points <- function(rows, layout, panel, along_y) {
  scale_of <- function(scales, number) scales[[min(number, length(scales))]]
  place <- layout$layout[layout$layout$PANEL == panel, ]
  x_scale <- scale_of(layout$panel_scales_x, place$SCALE_X)
  y_scale <- scale_of(layout$panel_scales_y, place$SCALE_Y)
  value <- function(scale, at) if (scale$is_discrete()) NA else scale$trans$inverse(at)
  if (along_y) {
    numbers <- if (y_scale$is_discrete()) value(x_scale, rows$x) else value(y_scale, rows$y)
    return(from_to(min(numbers), max(numbers), 3))
  }
  # The first and last samples of a time series are not informative.
  if (length(unique(rows$x)) > 30) {
    return(from_to(min(value(y_scale, rows$y)), max(value(y_scale, rows$y)), 3))
  }
  ends <- unique(range(rows$x))
  at <- vapply(ends, \(x) mean(value(y_scale, rows$y[rows$x == x])), 0)
  x <- value(x_scale, ends)
  paste(short(at), "at", short(x), collapse = ", ")
}
