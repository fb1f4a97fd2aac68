# Verdicts on cases: a table, and coloured fields with a palette for colour-blind readers (Okabe and
# Ito).

verdict_colours <- c(
  PASS = "#56B4E9", FAIL = "#D55E00", INCONCLUSIVE = "#F0E442", "NOT OBSERVABLE" = "grey92"
)

# Format a criterion as its section and name.
short_criterion <- function(section, criterion) {
  paste(section, gsub("-", " ", criterion))
}

# Order rows by the source's sections.
in_order_of_sections <- function(rows) rows[order(numeric_version(rows$section)), ]

# Format a criterion's limit: "at most 4".
limit_sign <- function(at_most, at_least) {
  ifelse(is.na(at_most), paste("\u2265", short(at_least, 2)), paste("\u2264", short(at_most, 2)))
}

# Draw a field with the number for each criterion and algorithm.
draw_verdicts <- function(criteria, algorithms) {
  shown <- in_order_of_sections(criteria) |>
    dplyr::mutate(
      name = paste0(short_criterion(section, criterion), ", ", limit_sign(at_most, at_least)),
      name = factor(name, rev(unique(name))),
      algorithm = factor(algorithm, unique(criteria$algorithm)),
      verdict = factor(verdict, names(verdict_colours)),
      number = ifelse(is.na(value), "", short(value, 2))
    ) |>
    tidyr::complete(
      name, algorithm,
      fill = list(verdict = factor("NOT OBSERVABLE", names(verdict_colours)), number = "")
    )
  ggplot2::ggplot(shown, ggplot2::aes(algorithm, name, fill = verdict)) +
    ggplot2::geom_tile(colour = "white", linewidth = 0.6) +
    ggplot2::geom_text(ggplot2::aes(label = number), size = 2.5, family = "DejaVu Sans") +
    ggplot2::scale_fill_manual(
      values = verdict_colours, drop = FALSE,
      # Fields without a case have no number.
      labels = \(names) sub("not observable", "not measured", tolower(names))
    ) +
    ggplot2::scale_x_discrete(
      labels = \(names) label_algorithms(names, algorithms), position = "top",
      expand = ggplot2::expansion()
    ) +
    ggplot2::scale_y_discrete(expand = ggplot2::expansion()) +
    ggplot2::labs(x = NULL, y = NULL, fill = NULL) +
    theme_losslab() +
    ggplot2::theme(panel.grid = ggplot2::element_blank(), legend.position = "bottom")
}

# With all criteria of the suite, figure and caption fit on a page.
verdicts_height_cm <- function(criteria) 2 + 0.355 * length(unique(criteria$criterion))

# Shorten a limit such as "at most 4" for a narrow column.
short_limit <- function(limit) {
  # Use a non-breaking space.
  sub("at least ", "\u2265\u00a0", sub("at most ", "\u2264\u00a0", limit))
}

# Tabulate the numbers: a row per criterion, a column per algorithm.
criteria_side_by_side <- function(rows, labels) {
  if (nrow(rows) == 0) {
    return(show_table(tibble::tibble(Criterion = character())))
  }
  number <- ifelse(is.na(rows$value), "", short(rows$value, 3))
  rows$shown <- dplyr::case_when(
    number == "" ~ "",
    rows$verdict == "FAIL" ~ paste0("*", number, "*"),
    rows$verdict == "INCONCLUSIVE" ~ paste0("(", number, ")"),
    TRUE ~ number
  )
  # Number of cells, which may be lower than in the suite.
  counts <- lengths(strsplit(dplyr::coalesce(rows$cells, ""), " "))
  spans <- tapply(counts, rows$criterion, \(n) paste(unique(range(n)), collapse = " to "))
  in_order_of_sections(rows) |>
    dplyr::transmute(
      Criterion = paste(section, criterion), Cells = c(spans[criterion]), Unit = unit,
      Limit = short_limit(limit), algorithm = labels[algorithm], shown
    ) |>
    tidyr::pivot_wider(names_from = algorithm, values_from = shown) |>
    show_table()
}
