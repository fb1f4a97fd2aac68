# Strips: one per criterion with the numbers of an algorithm and of the baselines, and the limit.

# List the baselines: the algorithms of a table that are not tested.
baselines_of <- function(criteria, tested) setdiff(unique(criteria$algorithm), tested)

strips_height_cm <- function(rows) {
  shown <- rows[!is.na(rows$value), ]
  per_strip <- 1.4 + 0.5 * length(unique(shown$algorithm))
  0.9 + per_strip * length(unique(shown$criterion))
}

# Draw the strips. `subject` is the page's algorithm, drawn at the top and larger.
draw_strips <- function(rows, subject, algorithms) {
  shown <- rows |>
    dplyr::filter(!is.na(value)) |>
    dplyr::mutate(
      strip = paste0(sub("[.]$", "", title), " (", unit, ")"),
      strip = factor(strip, unique(strip)),
      name = factor(algorithm, rev(unique(c(subject, algorithm)))),
      # Draw points without an interval, too.
      low = dplyr::coalesce(low, value),
      high = dplyr::coalesce(high, value)
    )
  limits <- dplyr::distinct(shown, strip, at_most, at_least)
  ggplot2::ggplot(shown, ggplot2::aes(value, name, colour = algorithm)) +
    # Shade values that miss the limit.
    ggplot2::geom_rect(
      ggplot2::aes(
        xmin = dplyr::coalesce(at_most, -Inf), xmax = dplyr::coalesce(at_least, Inf),
        ymin = -Inf, ymax = Inf
      ),
      data = limits, inherit.aes = FALSE, fill = "#D55E00", alpha = 0.12
    ) +
    ggplot2::geom_vline(
      ggplot2::aes(xintercept = dplyr::coalesce(at_most, at_least)),
      data = limits, linewidth = 0.4, colour = "#D55E00"
    ) +
    ggplot2::geom_linerange(ggplot2::aes(xmin = low, xmax = high), linewidth = 0.6) +
    ggplot2::geom_point(ggplot2::aes(shape = algorithm, size = algorithm == subject)) +
    ggplot2::facet_wrap(
      ggplot2::vars(strip), ncol = 1, scales = "free",
      labeller = ggplot2::label_wrap_gen(90)
    ) +
    ggplot2::expand_limits(x = 0) +
    ggplot2::scale_size_manual(values = c(`FALSE` = 1.6, `TRUE` = 2.8)) +
    ggplot2::scale_y_discrete(labels = \(names) label_algorithms(names, algorithms)) +
    algorithm_scales(algorithms) +
    ggplot2::guides(colour = "none", shape = "none", size = "none") +
    ggplot2::labs(x = NULL, y = NULL) +
    theme_losslab()
}
