# Agreement factors: every published number that the campaign measured, ours over the source's.
#
# A study with published numbers has a function STUDY_numbers(published), which lists them. Each row
# has the number (`published`), its `place` in the source, our `metric`, the `blocks` with the cell
# in order of preference (separated by spaces), and the axes that select the cell. Optional columns:
# - `source`: the source, if the study has several;
# - `published_runs`: number of the source's runs behind the number, if they are like ours;
# - `over`: the algorithm by whose value ours is divided, if the number is a ratio;
# - `repeats`: name of a group of the source's numbers that repeat each other;
# - `family`: numbers that share a margin; the default is the metric;
# - `rounding`: largest relative rounding error of the number.

factor_columns <- c("published_runs", "rounding")
factor_words <- c("over", "repeats")

# List a study's published numbers, with all optional columns and the source's margin. A number that
# several rows of the source repeat is their mean.
published_numbers <- function(study, published) {
  of_study <- get0(paste0(study, "_numbers"), mode = "function")
  if (is.null(of_study)) {
    return(tibble::tibble(study = character(), source = character()))
  }
  rows <- of_study(published) |>
    with_columns(factor_columns)
  for (name in setdiff(factor_words, names(rows))) rows[[name]] <- NA_character_
  if (!"source" %in% names(rows)) rows$source <- study
  if (!"family" %in% names(rows)) rows$family <- rows$metric
  rows <- rows[!is.na(rows$published), ]
  limits <- repeatability(rows)
  rows$study <- study
  rows$margin <- pmax(
    limits[paste(rows$source, rows$family)], 1 + dplyr::coalesce(rows$rounding, 0)
  )
  rows |>
    dplyr::group_by(dplyr::across(-dplyr::all_of(c("published", "published_runs", "repeats")))) |>
    dplyr::summarise(
      published = mean(published), published_runs = sum(published_runs), .groups = "drop"
    )
}

# Compute how far a source's repeated numbers differ, by source and family: the repeatability limit
# of ISO 5725-6, as a factor. 95 % of the pairs of such numbers differ by less. No number of ours
# enters it.
repeatability <- function(rows) {
  known <- rows[!is.na(rows$repeats) & rows$published > 0, ]
  deviations <- known |>
    dplyr::group_by(source, family, repeats) |>
    dplyr::filter(dplyr::n() > 1) |>
    dplyr::summarise(
      squares = sum((log(published) - mean(log(published)))^2), freedom = dplyr::n() - 1,
      .groups = "drop"
    )
  pooled <- deviations |>
    dplyr::group_by(source, family) |>
    dplyr::summarise(limit = repeatability_limit(sum(squares) / sum(freedom)), .groups = "drop")
  stats::setNames(pooled$limit, paste(pooled$source, pooled$family))
}

repeatability_limit <- function(variance) exp(stats::qnorm(0.975) * sqrt(2 * variance))

# Compare a study's published numbers with its cells. Numbers without a measured cell are omitted.
agreement_factors <- function(numbers, data) {
  rows <- lapply(seq_len(nrow(numbers)), \(i) agreement_factor(as.list(numbers[i, ]), data))
  dplyr::bind_rows(rows)
}

agreement_factor <- function(number, data) {
  for (block in strsplit(number$blocks, " ")[[1]]) {
    claim <- claim_of_number(number, block)
    # Most numbers of a small campaign have no cell: the first question finds them sooner.
    if (any(matches(data$cells, claim$where)) && why_not_measured(data, claim) == "") {
      return(factor_row(number, claim, data))
    }
  }
  NULL
}

# Turn a published number into a claim about the cell of a block.
claim_of_number <- function(number, block) {
  axes <- intersect(names(number), condition_columns)
  claim <- list(
    id = number$place, kind = "value", metric = number$metric,
    where = c(list(block = block), Filter(\(value) !is.na(value), number[axes]))
  )
  if (!is.na(number$over)) {
    claim$kind <- "smallest_ratio"
    claim$against <- list(algorithm = number$over)
  }
  if (!is.na(number$published_runs)) {
    claim$published_runs <- number$published_runs
  }
  claim
}

factor_row <- function(number, claim, data) {
  found <- claim_kinds[[claim$kind]](data, claim, interval_level)
  deterministic <- all_deterministic(data, claim)
  factor <- if (number$published > 0) found$value / number$published else NA_real_
  end <- function(x) if (deterministic) NA_real_ else x / found$value * factor
  list(
    study = number$study, source = number$source, place = number$place,
    cell = select_cells(data, claim)$cell, block = claim$where$block, metric = number$metric,
    over = number$over, published = number$published, published_runs = number$published_runs,
    measured = found$value, n = found$n, factor = factor, low = end(found$low),
    high = end(found$high), interval = interval_words(claim, found, deterministic, interval_level),
    margin = number$margin, within = as.numeric(abs(log(factor)) <= log(number$margin))
  )
}

no_factors <- tibble::tibble(
  study = "", source = "", place = "", cell = "", block = "", metric = "", over = "",
  published = 0, published_runs = 0, measured = 0, n = 0, factor = 0, low = 0, high = 0,
  interval = "", margin = 0, within = 0
)[0, ]

no_sources <- tibble::tibble(
  study = "", source = "", published = 0, measured = 0, median = 0, q25 = 0, q75 = 0,
  with_margin = 0, within = 0
)[0, ]

# Summarise the factors of each source: published and measured numbers, the median factor, the
# middle half of the factors, and how many are within the source's own margin.
summarise_factors <- function(numbers, factors) {
  if (nrow(factors) == 0) {
    return(no_sources)
  }
  published <- dplyr::count(numbers, study, source, name = "published")
  factors |>
    dplyr::filter(!is.na(factor)) |>
    # Columns of a campaign without measured numbers have no type.
    dplyr::mutate(study = as.character(study), source = as.character(source)) |>
    dplyr::group_by(study, source) |>
    dplyr::summarise(
      measured = dplyr::n(), median = stats::median(factor),
      q25 = stats::quantile(factor, 0.25, names = FALSE),
      q75 = stats::quantile(factor, 0.75, names = FALSE),
      with_margin = sum(!is.na(within)), within = sum(within, na.rm = TRUE), .groups = "drop"
    ) |>
    dplyr::left_join(published, by = c("study", "source")) |>
    dplyr::relocate(published, .after = source) |>
    dplyr::arrange(match(study, unique(numbers$study)), source)
}

# Show the factors as a table.
show_factors <- function(factors) {
  factors |>
    dplyr::transmute(
      Place = paste0(ifelse(source == study, study, paste0(study, ": ", source)), ", ", place),
      Cell = breakable(cell),
      Metric = breakable(ifelse(is.na(over), metric, paste0(metric, " over ", over))),
      Published = short_or_empty(published), n, Ours = short_or_empty(measured),
      Factor = ifelse(
        is.na(within) | within == 1, short_or_empty(factor), paste0("**", short(factor), "**")
      ),
      `Interval` = dplyr::case_when(
        !is.na(low) ~ paste(short(low), "to", short(high)),
        interval %in% "deterministic" ~ interval, TRUE ~ ""
      ),
      Margin = short_or_empty(margin)
    ) |>
    show_table(align = "lllrrrrlr")
}

margin_looks <- tibble::tibble(
  place = c("within", "outside", "unknown"),
  colour = c("#0072B2", "#D55E00", "#7F7F7F"), shape = c(16, 15, 1)
)

# Draw the factors by source and metric, on a logarithmic axis.
draw_factors <- function(factors) {
  edge <- 8
  rows <- factors |>
    dplyr::filter(!is.na(factor), factor > 0) |>
    dplyr::mutate(
      label = paste(source, sub(" \\(.*", "", metric_titles[metric]), sep = ": "),
      label = factor(label, rev(unique(label))),
      shown = pmin(pmax(factor, 1 / edge), edge),
      place = factor(
        dplyr::case_when(is.na(within) ~ "unknown", within == 1 ~ "within", TRUE ~ "outside"),
        margin_looks$place
      )
    )
  ggplot2::ggplot(rows, ggplot2::aes(shown, label, colour = place, shape = place)) +
    ggplot2::geom_vline(xintercept = 1, colour = "grey30", linewidth = 0.25) +
    ggplot2::geom_point(size = 1.4, position = ggplot2::position_jitter(0, 0.22, seed = 1)) +
    ggplot2::scale_x_log10(
      breaks = 2^(-3:3), labels = c("1/8", "1/4", "1/2", "1", "2", "4", "8"),
      limits = c(1 / edge, edge) * c(0.95, 1.05)
    ) +
    ggplot2::scale_colour_manual(
      values = stats::setNames(margin_looks$colour, margin_looks$place), drop = FALSE
    ) +
    ggplot2::scale_shape_manual(
      values = stats::setNames(margin_looks$shape, margin_looks$place), drop = FALSE
    ) +
    ggplot2::labs(
      x = "Ours / published", y = NULL, colour = "Source's margin", shape = "Source's margin"
    ) +
    theme_losslab() +
    ggplot2::theme(axis.text.y = ggplot2::element_text(size = 7))
}
