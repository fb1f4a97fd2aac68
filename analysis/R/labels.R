# Names at the ends of lines, instead of a legend.

# Space positions at least `gap` apart, in order, as near to `wanted` as possible (least squares).
spaced <- function(wanted, gap) {
  order <- order(wanted)
  steps <- gap * (seq_along(wanted) - 1)
  wanted[order] <- stats::isoreg(wanted[order] - steps)$yf + steps
  wanted
}

# Place each point's label above it, or else below, right or left: the first side on which it is
# `away` from other labels, points and `other` points. Lengths are shares of all points' range.
# Returns `hjust` and `vjust`.
label_side <- function(x, y, other_x = numeric(), other_y = numeric(), away = 0.04) {
  sides <- data.frame(
    hjust = c(0.5, 0.5, -0.5, 1.5), vjust = c(-0.7, 1.6, 0.5, 0.5),
    right = c(0, 0, 1, -1), up = c(1, -1, 0, 0)
  )
  if (length(x) == 0) return(sides[0, c("hjust", "vjust")])
  taken_x <- scales::rescale(c(x, other_x))
  taken_y <- scales::rescale(c(y, other_y))
  chosen <- integer()
  for (point in seq_along(x)) {
    label_x <- taken_x[point] + away * sides$right
    label_y <- taken_y[point] + away * sides$up
    room <- vapply(seq_len(nrow(sides)), function(side) {
      min(1, pmax(abs(taken_x - label_x[side]), abs(taken_y - label_y[side]))[-point])
    }, 0)
    chosen[point] <- which.max(pmin(room, 0.9 * away))
    taken_x <- c(taken_x, label_x[chosen[point]])
    taken_y <- c(taken_y, label_y[chosen[point]])
  }
  sides[chosen, c("hjust", "vjust")]
}

# Find the right end of each line of each panel, and the position `at` of its name: at the end or as
# near as the other names allow. `gap` is the height of a name as a share of the axis. `axis_of` are
# the columns whose values have their own y axis. `also` are other values on the axis (a zero).
line_ends <- function(data, x, y, name, panels = character(), log_y = FALSE, gap = 0.075,
                      axis_of = character(), also = numeric()) {
  to <- if (log_y) log10 else identity
  from <- if (log_y) \(value) 10^value else identity
  extent <- function(values) {
    values <- values[is.finite(values)]
    if (length(values) == 0) 0 else diff(range(values))
  }
  data |>
    dplyr::filter(!is.na(.data[[x]]), !is.na(.data[[y]])) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(axis_of))) |>
    dplyr::mutate(axis_length = extent(to(c(.data[[y]], also)))) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(c(panels, name)))) |>
    dplyr::slice_max(.data[[x]], n = 1, with_ties = FALSE) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(panels))) |>
    dplyr::mutate(at = from(spaced(to(.data[[y]]), gap * .data$axis_length[1]))) |>
    dplyr::ungroup() |>
    dplyr::select(-"axis_length")
}

# Draw the names of `line_ends()`, in the colours of the lines if `coloured`; `label` formats them.
# The x axis needs `room_for_names()`.
name_lines <- function(ends, x, name, label = identity, coloured = TRUE) {
  # Non-breaking spaces, which SVG does not collapse, separate the names from the lines.
  words <- if (nrow(ends) > 0) label(as.character(ends[[name]])) else character()
  ends$name_at_end <- if (nrow(ends) > 0) paste0("\u00a0\u00a0", words) else words
  place <- ggplot2::aes(x = .data[[x]], y = .data$at, label = .data$name_at_end)
  if (coloured) place["colour"] <- ggplot2::aes(colour = .data[[name]])
  list(
    ggplot2::geom_text(
      place,
      data = ends, inherit.aes = FALSE, hjust = 0, size = 3, family = "DejaVu Sans",
      show.legend = FALSE
    ),
    ggplot2::guides(colour = "none", fill = "none", shape = "none")
  )
}

# Expand the x axis at its right end, as a share of its range.
room_for_names <- function(share = 0.24) ggplot2::expansion(c(0.05, share))
