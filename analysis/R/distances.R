# The report's first figure: distance of every claim's number from the published one.

# Numbers beyond this distance, in percent, are drawn at the edge.
edge_percent <- c(-150, 1000)

# Compute the distance of each claim's number, confidence interval and allowed range from the
# published number, in percent of it. Without a published number, or if it is zero, the distance is
# from the limit.
claim_distances <- function(claims) {
  bound <- as.numeric(sub("^(within|at most|at least) ", "", claims$tolerance))
  sort <- sub(" [^ ]+$", "", claims$tolerance)
  against <- ifelse(is.na(claims$published) | claims$published == 0, "limit", "published")
  reference <- ifelse(against == "published", claims$published, bound)
  distance <- function(x) {
    # There is no percentage of zero: equal, or beyond the edge.
    zero <- ifelse(x == 0, 0, sign(x) * Inf)
    100 * ifelse(reference == 0, zero, (x - reference) / abs(reference))
  }
  tibble::tibble(
    study = factor(claims$study, unique(claims$study)), claim = claims$claim,
    against = against, verdict = factor(claims$verdict, verdicts),
    distance = distance(claims$measured), low = distance(claims$low), high = distance(claims$high),
    least = ifelse(
      sort == "within", distance(claims$published - bound),
      ifelse(sort == "at least", distance(bound), -Inf)
    ),
    most = ifelse(
      sort == "within", distance(claims$published + bound),
      ifelse(sort == "at most", distance(bound), Inf)
    )
  )
}

# Colours and shapes of the verdicts; they also differ in greyscale.
verdict_looks <- tibble::tibble(
  verdict = c("reproduced", "not reproduced", "inconclusive", "not comparable"),
  colour = c("#0072B2", "#D55E00", "#7F7F7F", "#B79F00"),
  shape = c(16, 15, 1, 5)
)

# Maximum number of rows of a column. The figure has about 10 cm on the first page, below the
# results and the box.
most_rows <- 45

# Distribute the studies over two or three columns of similar length, without splitting a study.
distance_columns <- function(studies) {
  rows <- table(studies)
  # A study's name takes the space of two claims.
  room <- as.vector(rows) + 2
  # Fill columns of at most `most` rows in order.
  filled <- function(most) {
    Reduce(function(at, more) {
      if (at[2] > 0 && at[2] + more > most) c(at[1] + 1, more) else c(at[1], at[2] + more)
    }, room, c(1, 0), accumulate = TRUE)[-1]
  }
  numbers <- function(most) vapply(filled(most), `[`, 0, 1)
  columns <- min(length(rows), if (sum(room) > 2 * most_rows) 3 else 2)
  # The minimum height of this number of columns.
  most <- max(room)
  while (max(numbers(most)) > columns) most <- most + 1
  stats::setNames(numbers(most), names(rows))
}

draw_distances <- function(distances) {
  distances <- dplyr::filter(distances, !is.na(distance))
  distances$study <- droplevels(distances$study)
  column <- distance_columns(distances$study)
  parts <- lapply(unique(column), function(which) {
    rows <- distances[column[as.character(distances$study)] == which, ]
    draw_distance_column(dplyr::mutate(rows, study = droplevels(study)))
  })
  patchwork::wrap_plots(parts, nrow = 1) +
    patchwork::plot_layout(guides = "collect") &
    ggplot2::theme(
      legend.position = "top", legend.justification = "left",
      legend.margin = ggplot2::margin(0, 0, 0, 0), legend.box.spacing = grid::unit(2, "pt")
    )
}

draw_distance_column <- function(rows) {
  within_edges <- function(x) pmin(pmax(x, edge_percent[1]), edge_percent[2])
  rows <- rows |>
    dplyr::mutate(
      claim = factor(paste(study, claim), rev(paste(study, claim))),
      dplyr::across(c(distance, low, high, least, most), within_edges)
    )
  ggplot2::ggplot(rows, ggplot2::aes(distance, claim)) +
    ggplot2::geom_segment(
      ggplot2::aes(x = least, xend = most, yend = claim),
      colour = "grey88", linewidth = 1.4
    ) +
    ggplot2::geom_vline(xintercept = 0, colour = "grey30", linewidth = 0.25) +
    ggplot2::geom_segment(
      ggplot2::aes(x = low, xend = high, yend = claim, colour = verdict),
      linewidth = 0.4, na.rm = TRUE
    ) +
    ggplot2::geom_point(
      ggplot2::aes(colour = verdict, shape = verdict),
      size = 0.9, stroke = 0.45
    ) +
    ggplot2::facet_grid(ggplot2::vars(study), scales = "free_y", space = "free_y", switch = "y") +
    ggplot2::scale_x_continuous(
      trans = scales::pseudo_log_trans(sigma = 15), limits = edge_percent,
      breaks = c(-100, -30, 0, 30, 100, 300, 1000),
      labels = c("\u2212100", "\u221230", "0", "30", "100", "300", "+"),
      expand = ggplot2::expansion(0.01),
      guide = ggplot2::guide_axis(check.overlap = TRUE)
    ) +
    ggplot2::scale_y_discrete(
      labels = function(names) sub("^[^ ]+ ", "", names), position = "left"
    ) +
    ggplot2::scale_colour_manual(
      values = stats::setNames(verdict_looks$colour, verdict_looks$verdict), drop = FALSE,
      limits = verdict_looks$verdict, name = NULL
    ) +
    ggplot2::scale_shape_manual(
      values = stats::setNames(verdict_looks$shape, verdict_looks$verdict), drop = FALSE,
      limits = verdict_looks$verdict, name = NULL
    ) +
    ggplot2::labs(x = "Distance from published (%)", y = NULL) +
    theme_losslab() +
    ggplot2::theme(
      axis.text.y = ggplot2::element_text(size = 4.8),
      axis.text.x = ggplot2::element_text(size = 6),
      axis.title.x = ggplot2::element_text(size = 7), strip.placement = "outside",
      strip.text.y.left = ggplot2::element_text(size = 6.5, angle = 90, hjust = 0.5),
      panel.grid.major.y = ggplot2::element_blank(), panel.spacing = grid::unit(1.5, "pt"),
      legend.key.size = grid::unit(9, "pt"), legend.text = ggplot2::element_text(size = 7),
      plot.margin = ggplot2::margin(2, 4, 2, 2)
    )
}

# Write the figure's alternative text: each study's verdicts, and the numbers furthest from the
# published ones.
distances_text <- function(distances) {
  distances <- dplyr::filter(distances, !is.na(distance))
  if (nrow(distances) == 0) {
    return("Nothing is drawn.")
  }
  studies <- vapply(split(distances, droplevels(distances$study)), function(rows) {
    counts <- table(droplevels(rows$verdict))
    paste0(rows$study[1], ": ", enumerate(paste(counts, names(counts))), ".")
  }, "")
  off <- dplyr::filter(distances, verdict == "not reproduced", is.finite(distance))
  far <- off[order(-abs(off$distance)), ][seq_len(min(3, nrow(off))), ]
  farthest <- if (nrow(far) > 0) {
    paste0(
      "Largest distances of claims not reproduced: ",
      enumerate(paste0(far$claim, " (", fixed(far$distance, 0), " %)")), "."
    )
  }
  paste(c(studies, farthest), collapse = " ")
}

# Height for the rows of the longest column, in cm.
distances_height_cm <- function(distances) {
  distances <- dplyr::filter(distances, !is.na(distance))
  studies <- droplevels(distances$study)
  if (length(studies) == 0) {
    return(4)
  }
  rows <- tapply(as.vector(table(studies)), distance_columns(studies), sum)
  1.7 + 0.165 * max(rows) + 0.1 * nlevels(studies)
}
