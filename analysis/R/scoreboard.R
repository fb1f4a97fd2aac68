# The scoreboard: every published number that the campaign measured, as the ratio of ours to it.
#
# A study with published numbers has a function STUDY_numbers(published), which lists them. Each row
# has the number (`published`), its `place` in the source, our `metric`, the `blocks` with the cell
# in order of preference (separated by spaces), and the axes that select the cell. Optional columns:
# - `source`: whose number it is, if it is not of the study's own source;
# - `published_runs` and `published_sd`: the source's runs behind the number, and their scatter;
# - `over`: the algorithm by whose value ours is divided, if the number is a ratio;
# - `statistic`: the statistic of the runs' seconds that the number is; by default the mean of runs;
# - `null`: what a model says that knows no congestion control: "no gain", the link's rate;
# - `apart`: why the number does not count (`not_counted`);
# - `because`: required with `apart`: the axes that were fitted or that configure the number,
#   separated by spaces, or in words, from which numbers it follows or why it is not comparable;
# - `fact`: name of the fact that several numbers state; they count once;
# - `repeats`: name of a group of the source's numbers that repeat each other;
# - `family`: numbers that share a margin; the default is the metric.

optional_numbers <- c("published_runs", "published_sd", "null")
optional_words <- c("over", "statistic", "apart", "because", "fact", "repeats")

# Numbers that do not count: they follow from a fit, from the set-up, or from other numbers of the
# list, or the source's number is of another quantity.
not_counted <- c("fitted", "configured", "derived", "not comparable")

# The grades of a ratio, and the largest factor of each in either direction.
grades <- c("within 5 %" = 1.05, "within 25 %" = 1.25, "within a factor of 2" = 2, beyond = Inf)
grade_colours <- c("#0072B2", "#56B4E9", "#E69F00", "#D55E00")

# List a study's published numbers as in its table, with all optional columns.
listed_numbers <- function(study, published) {
  of_study <- get0(paste0(study, "_numbers"), mode = "function")
  if (is.null(of_study)) {
    return(tibble::tibble(study = character(), source = character()))
  }
  rows <- with_columns(of_study(published), optional_numbers)
  refuse <- \(...) stop("studies/", study, ": ", study, "_numbers must ", ...)
  lacking <- setdiff(c("place", "blocks", "metric", "published"), names(rows))
  if (length(lacking) > 0) refuse("have the column ", lacking[1], ", found none")
  unknown <- setdiff(metric_key(rows$metric), names(metric_units))
  if (length(unknown) > 0) refuse("name metrics of config/metrics.tsv, found ", unknown[1])
  for (name in setdiff(optional_words, names(rows))) rows[[name]] <- NA_character_
  if (!"source" %in% names(rows)) rows$source <- study
  if (!"family" %in% names(rows)) rows$family <- rows$metric
  rows$study <- study
  unknown_marks <- setdiff(rows$apart, c(not_counted, NA))
  if (length(unknown_marks) > 0) {
    refuse("have in apart one of ", toString(not_counted), ", found ", unknown_marks[1])
  }
  require_reasons(rows, refuse)
  rows$place <- as.character(rows$place)
  rows[!is.na(rows$published), ]
}

# Refuse numbers that do not count without a reason, and a fit or set-up that names no axis.
require_reasons <- function(rows, refuse) {
  if (any(is.na(rows$apart) != is.na(rows$because))) {
    place <- rows$place[is.na(rows$apart) != is.na(rows$because)][1]
    refuse("have both apart and because or neither, found one at ", place)
  }
  of_axes <- rows$because[rows$apart %in% c("fitted", "configured")]
  unknown <- setdiff(unlist(strsplit(as.character(of_axes), " ")), condition_columns)
  if (length(unknown) > 0) {
    refuse("name axes in because if a number is fitted or configured, found ", unknown[1])
  }
}

# List a study's published numbers. A number that several rows of the source repeat is their mean.
published_numbers <- function(study, published) {
  rows <- listed_numbers(study, published)
  if (nrow(rows) == 0) {
    return(rows)
  }
  merged <- c("published", optional_numbers, "repeats", "family")
  rows |>
    dplyr::group_by(dplyr::across(-dplyr::all_of(merged))) |>
    dplyr::summarise(
      published_sd = if (dplyr::n() > 1) stats::sd(published) else published_sd,
      published = mean(published), published_runs = sum(published_runs), null = mean(null),
      .groups = "drop"
    )
}

# Compute how far a source's repeated numbers differ, by source and family: the repeatability limit
# of ISO 5725-6, as a factor. 95 % of the pairs of such numbers differ by less. Limits of claims
# follow from it. No number of ours enters it.
repeatability <- function(rows) {
  known <- rows[!is.na(rows$repeats) & rows$published > 0, ]
  pooled <- known |>
    dplyr::group_by(source, family, repeats) |>
    dplyr::filter(dplyr::n() > 1) |>
    dplyr::summarise(
      squares = sum((log(published) - mean(log(published)))^2), freedom = dplyr::n() - 1,
      .groups = "drop_last"
    ) |>
    dplyr::summarise(
      limit = exp(stats::qnorm(0.975) * sqrt(2 * sum(squares) / sum(freedom))), .groups = "drop"
    )
  stats::setNames(pooled$limit, paste(pooled$source, pooled$family))
}

# Compare a study's published numbers with its cells: a row for each fact. Numbers without a
# measured cell are omitted.
scoreboard <- function(numbers, data) {
  # A block that the campaign does not measure completely has a row, too (`gather`).
  unknown <- setdiff(unlist(strsplit(as.character(numbers$blocks), " ")), data$cells$block)
  if (length(unknown) > 0) {
    stop(numbers$study[1], "_numbers must name blocks of its study, found ", unknown[1])
  }
  rows <- lapply(seq_len(nrow(numbers)), \(i) scoreboard_row(as.list(numbers[i, ]), data))
  join_facts(dplyr::bind_rows(no_scores, rows))
}

scoreboard_row <- function(number, data) {
  for (block in strsplit(number$blocks, " ")[[1]]) {
    claim <- claim_of_number(number, block)
    # Most numbers of a small campaign have no cell: the first question finds them sooner.
    if (any(matches(data$cells, claim$where)) && why_not_measured(data, claim) == "") {
      return(score_of(number, claim, data))
    }
  }
  NULL
}

# Turn a published number into a claim about the cell of a block.
claim_of_number <- function(number, block) {
  axes <- intersect(names(number), condition_columns)
  claim <- list(
    id = paste0(number$study, "_numbers, ", number$place), kind = "value", metric = number$metric,
    where = c(list(block = block), Filter(\(value) !is.na(value), number[axes]))
  )
  if (!is.na(number$over)) {
    claim$kind <- "smallest_ratio"
    claim$against <- list(algorithm = number$over)
  }
  claim
}

score_of <- function(number, claim, data) {
  deterministic <- all_deterministic(data, claim)
  estimate <- if (is.na(number$statistic)) {
    claim_kinds[[claim$kind]](data, claim, interval_level)
  } else {
    seconds_estimate(data, only(select_cells(data, claim), claim)$cell, number)
  }
  over_published <- \(x) if (number$published > 0) as.numeric(x) / number$published else NA_real_
  c(
    number[c("study", "source", "place")],
    list(cell = only(select_cells(data, claim), claim)$cell, block = claim$where$block),
    number[c(
      "metric", "over", "statistic", "apart", "because", "fact", "published", "published_runs",
      "published_sd"
    )],
    list(
      null_ratio = over_published(number$null),
      measured = estimate$value, n = estimate$n, ratio = over_published(estimate$value),
      low = if (deterministic) NA_real_ else over_published(estimate$low),
      high = if (deterministic) NA_real_ else over_published(estimate$high),
      interval = if (is.na(number$statistic)) {
        interval_words(claim, estimate, deterministic, interval_level)
      } else {
        ""
      }
    )
  )
}

# Get a statistic of a cell's seconds, which has no confidence interval.
seconds_estimate <- function(data, cell, number) {
  rows <- data$statistics
  row <- rows[
    rows$cell == cell & rows$metric == number$metric & rows$statistic_over == "seconds",
  ]
  if (nrow(row) != 1) {
    stop(number$study, "_numbers must name a metric that cells have by the second, found ",
         number$metric)
  }
  list(value = row[[number$statistic]], low = NA_real_, high = NA_real_, n = row$n)
}

no_scores <- tibble::tibble(
  study = "", source = "", place = "", cell = "", block = "", metric = "", over = "",
  statistic = "", apart = "", because = "", fact = "", published = 0, published_runs = 0,
  published_sd = 0, null_ratio = 0, measured = 0, n = 0, ratio = 0, low = 0, high = 0, interval = ""
)[0, ]

# Join the numbers that state the same fact into one row, with their geometric means, and grade it.
join_facts <- function(rows) {
  rows |>
    dplyr::mutate(
      low = ifelse(is.na(fact), low, dplyr::coalesce(low, ratio)),
      high = ifelse(is.na(fact), high, dplyr::coalesce(high, ratio)),
      own = ifelse(is.na(fact), dplyr::row_number(), match(fact, fact))
    ) |>
    dplyr::group_by(study, source, own) |>
    dplyr::mutate(
      numbers = dplyr::n(),
      dplyr::across(c(published, measured, ratio, null_ratio, low, high), \(x) {
        if (dplyr::n() == 1) x else exp(mean(log(x)))
      }),
      dplyr::across(c(published_runs, published_sd), \(x) if (dplyr::n() == 1) x else NA_real_)
    ) |>
    dplyr::slice(1) |>
    dplyr::ungroup() |>
    dplyr::mutate(grade = grade_of(ratio)) |>
    dplyr::select(-own)
}

# Grade ratios, from the best grade to the worst; NA without a ratio.
grade_of <- function(ratio) {
  places <- findInterval(as_distance(ratio), grades, left.open = TRUE) + 1
  factor(names(grades)[places], names(grades))
}

# Turn a ratio into a factor of at least one.
as_distance <- function(ratio) pmax(ratio, 1 / ratio)

# Tell which rows count: those with a ratio to which nothing was fitted or configured.
counts <- function(rows) is.na(rows$apart) & !is.na(rows$ratio)

no_sources <- tibble::tibble(
  study = "", source = "", published = 0, measured = 0, counted = 0, within_5 = 0, within_25 = 0,
  within_2 = 0, median = 0
)[0, ]

# Summarise the rows by source: published and measured numbers, the facts that count, how many have
# each grade or a better one, and the median factor between ours and the source's.
summarise_scoreboard <- function(numbers, rows) {
  if (nrow(rows) == 0) {
    return(no_sources)
  }
  rows$distance <- ifelse(counts(rows), as_distance(rows$ratio), NA)
  within <- function(distance, factor) sum(distance <= factor, na.rm = TRUE)
  rows |>
    dplyr::group_by(study, source) |>
    dplyr::summarise(
      measured = sum(numbers), counted = sum(!is.na(distance)),
      within_5 = within(distance, 1.05), within_25 = within(distance, 1.25),
      within_2 = within(distance, 2), median = stats::median(distance, na.rm = TRUE),
      .groups = "drop"
    ) |>
    dplyr::left_join(
      dplyr::count(numbers, study, source, name = "published"), by = c("study", "source")
    ) |>
    dplyr::relocate(published, .after = source) |>
    dplyr::arrange(match(study, unique(numbers$study)), source != study, source)
}

no_metrics <- tibble::tibble(
  study = "", source = "", metric = "", counted = 0, within_5 = 0, within_25 = 0, within_2 = 0,
  null_counted = 0, null_within_5 = 0, null_within_25 = 0, null_within_2 = 0
)[0, ]

# Summarise the facts that count by source and metric, with the same counts of the null models: what
# they also reach says nothing about the emulation.
summarise_metrics <- function(rows) {
  rows <- rows[counts(rows), ]
  if (nrow(rows) == 0) {
    return(no_metrics)
  }
  rows$metric <- paste0(
    rows$metric, ifelse(is.na(rows$over), "", paste(" over", rows$over)),
    ifelse(is.na(rows$statistic), "", paste(",", rows$statistic, "of seconds"))
  )
  # Of ratios, how many are within a factor of one.
  within <- function(ratio, factor) sum(as_distance(ratio) <= factor, na.rm = TRUE)
  rows |>
    dplyr::group_by(study, source, metric) |>
    dplyr::summarise(
      counted = dplyr::n(), within_5 = within(ratio, 1.05), within_25 = within(ratio, 1.25),
      within_2 = within(ratio, 2), null_counted = sum(!is.na(null_ratio)),
      null_within_5 = within(null_ratio, 1.05), null_within_25 = within(null_ratio, 1.25),
      null_within_2 = within(null_ratio, 2), .groups = "drop"
    )
}

# Show the facts by source and metric, ours beside those of the null model.
show_metrics <- function(metrics) {
  null <- function(column) {
    ifelse(metrics$null_counted > 0, as.character(metrics[[column]]), "")
  }
  metrics |>
    dplyr::transmute(
      Source = source, Metric = breakable(metric), Counted = counted, `Within 5 %` = within_5,
      `25 %` = within_25, `Factor of 2` = within_2, `Null model: counted` = null("null_counted"),
      `within 5 %` = null("null_within_5"), ` 25 %` = null("null_within_25"),
      `factor of 2` = null("null_within_2")
    ) |>
    show_table(align = "llrrrrrrrr")
}

# Sum the scoreboard of the studies' own sources in one sentence, with the source of most numbers;
# "" if nothing counts.
scoreboard_text <- function(sources) {
  own <- sources[sources$source == sources$study & sources$counted > 0, ]
  if (nrow(own) == 0) {
    return("")
  }
  percent <- \(column) paste0(fixed(100 * sum(own[[column]]) / sum(own$counted), 0), " %")
  paste0(
    "Of ", sum(own$counted), " published number", if (sum(own$counted) > 1) "s", " of ",
    count_of_sources(nrow(own)),
    if (nrow(own) > 1) {
      paste0(" (", max(own$counted), " of *", own$source[which.max(own$counted)], "*)")
    },
    " to which nothing was fitted, ", percent("within_5"), " come out within 5 %, ",
    percent("within_25"), " within 25 %, and ", percent("within_2"), " within a factor of two.",
    without_largest(own)
  )
}

# Say the same without the source that has more than half of the numbers; "" if none has.
without_largest <- function(own) {
  largest <- which.max(own$counted)
  rest <- own[-largest, ]
  if (sum(rest$counted) == 0 || own$counted[largest] < sum(rest$counted)) {
    return("")
  }
  percent <- \(column) fixed(100 * sum(rest[[column]]) / sum(rest$counted), 0)
  paste0(
    " Without *", own$source[largest], "*, it is ", percent("within_5"), ", ", percent("within_25"),
    " and ", percent("within_2"), " % of ", sum(rest$counted), "."
  )
}

# Count the orders and signs: "Of 47 published orders and signs, 35 are reproduced, ...".
orders_text <- function(claims) {
  orders <- claims$verdict[claims$evidence == "order" & claims$verdict != "not measured"]
  if (length(orders) == 0) {
    return("")
  }
  open <- sum(orders == "inconclusive")
  others <- sum(orders == "not comparable")
  number <- \(count) paste(count, if (count == 1) "is" else "are")
  paste0(
    "Of ", length(orders), " published orders and signs, ", number(sum(orders == "reproduced")),
    " reproduced and ", number(sum(orders == "not reproduced")), " not",
    if (open > 0) paste0("; ", number(open), " inconclusive"),
    if (others > 0) paste0("; ", number(others), " not comparable"),
    "."
  )
}

count_of_sources <- function(count) {
  words <- c("one source", "two sources", "three sources", "four sources", "five sources")
  if (count <= length(words)) words[count] else paste(count, "sources")
}

# Show the sources as a table, with the orders and signs of the studies' own.
show_sources <- function(sources, claims) {
  orders <- function(study, source, verdict) {
    sum(claims$study == study & source == study & claims$evidence == "order" &
          claims$verdict == verdict)
  }
  sources |>
    dplyr::rowwise() |>
    dplyr::transmute(
      Source = source, Published = published, Measured = measured, Counted = counted,
      `Within 5 %` = within_5, `25 %` = within_25, `Factor of 2` = within_2,
      `Median factor` = fixed_or_empty(median, 2),
      `Orders right` = orders(study, source, "reproduced"),
      Wrong = orders(study, source, "not reproduced"), Open = orders(study, source, "inconclusive")
    ) |>
    show_table(align = "lrrrrrrrrrr")
}

# Show the rows of the scoreboard as a table.
show_scoreboard <- function(rows) {
  rows |>
    dplyr::transmute(
      Number = paste0(
        source, ", ", place, ifelse(numbers > 1, paste0(": ", fact, " (", numbers, " numbers)"), "")
      ),
      Cell = breakable(cell),
      Metric = breakable(paste0(
        metric, ifelse(is.na(over), "", paste0(" over ", over)),
        ifelse(is.na(statistic), "", paste0(", ", statistic, " of seconds"))
      )),
      Published = paste0(
        short(published), ifelse(is.na(published_sd), "", paste(" \u00b1", short(published_sd, 2)))
      ),
      Runs = short_or_empty(published_runs), Ours = short_or_empty(measured), n,
      Ratio = ifelse(
        is.na(low), short_or_empty(ratio),
        paste0(short(ratio), " [", short(low), ", ", short(high), "]")
      ),
      Grade = dplyr::coalesce(
        dplyr::if_else(is.na(apart), NA_character_, paste0(apart, ": ", breakable(because))),
        as.character(grade), "no ratio"
      )
    ) |>
    show_table(align = "lllrrrrrl")
}

# Ratios beyond this factor are drawn at the edge.
scoreboard_edge <- 4

# Draw the ratios as dots, a line for each source, with bands at 5 and 25 %.
draw_scoreboard <- function(rows, sources) {
  share <- function(column) fixed(100 * sources[[column]] / sources$counted, 0)
  label <- ifelse(
    sources$counted == 0, sources$source,
    paste0(
      sources$source, " (", sources$counted, ")\n", share("within_5"), ", ", share("within_25"),
      ", ", share("within_2"), " %"
    )
  )
  levels <- c(names(grades), "fitted or configured")
  drawn <- rows |>
    dplyr::filter(!is.na(ratio), !apart %in% c("derived", "not comparable")) |>
    dplyr::mutate(
      source = factor(
        label[match(paste(study, source), paste(sources$study, sources$source))], rev(label)
      ),
      shown = pmin(pmax(ratio, 1 / scoreboard_edge), scoreboard_edge),
      grade = factor(ifelse(is.na(apart), as.character(grade), "fitted or configured"), levels)
    ) |>
    dplyr::select(study, place, cell, metric, ratio, source, shown, grade)
  band <- function(reach, fill) {
    ggplot2::annotate(
      "rect", xmin = 1 / reach, xmax = reach, ymin = -Inf, ymax = Inf, fill = fill
    )
  }
  ggplot2::ggplot(drawn, ggplot2::aes(shown, source, colour = grade, shape = grade)) +
    band(1.25, "grey93") +
    band(1.05, "grey83") +
    ggplot2::geom_vline(xintercept = 1, colour = "grey40", linewidth = 0.25) +
    ggplot2::geom_point(size = 1.2, position = ggplot2::position_jitter(0, 0.25, seed = 1)) +
    ggplot2::scale_x_log10(
      breaks = c(0.25, 0.5, 0.8, 1, 1.25, 2, 4),
      labels = c("\u2264 1/4", "1/2", "0.8", "1", "1.25", "2", "\u2265 4"),
      limits = c(1 / scoreboard_edge, scoreboard_edge) * c(0.93, 1.07), expand = c(0, 0)
    ) +
    ggplot2::scale_colour_manual(
      values = stats::setNames(c(grade_colours, "grey55"), levels), drop = FALSE
    ) +
    ggplot2::scale_shape_manual(
      values = stats::setNames(c(16, 16, 16, 16, 1), levels), drop = FALSE
    ) +
    ggplot2::labs(x = "Ours / published", y = NULL, colour = NULL, shape = NULL) +
    theme_losslab() +
    ggplot2::theme(
      text = ggplot2::element_text(size = 8), panel.grid.major.y = ggplot2::element_blank(),
      legend.key.size = grid::unit(9, "pt")
    )
}

# Height for a line for each source, in cm.
scoreboard_height_cm <- function(sources) 1.9 + 0.57 * max(1, nrow(sources))
