# Contents of a scorecard's pages (report/score).

# Read the scorecard's files from the page's folder.
read_card <- function() {
  subject <- jsonlite::read_json("subject.json")
  scorecard <- jsonlite::read_json("scorecard.json")
  suite <- yaml::read_yaml(paste0(scorecard$suite, ".yaml"))
  algorithms <- read_algorithms("algorithms.tsv")
  list(
    name = subject$name, folder = subject$folder, scorecard = scorecard, suite = suite,
    criteria = read_criteria("score_criteria.csv"), cells = read_cells("score_cells.csv"),
    labels = stats::setNames(algorithms$label, algorithms$name),
    baselines = unlist(scorecard$baselines)
  )
}

score_subtitle <- function() {
  card <- read_card()
  paste0(
    card$suite$source, ". The ", card$scorecard$form, " form of the suite `", card$scorecard$suite,
    "`, on real Linux TCP in virtual time; losslab ", card$scorecard$losslab, "."
  )
}

# Count criteria by verdict: "16 of 21 criteria are met; 3 missed and 2 inconclusive".
verdicts_of_card <- function(own) {
  counts <- table(factor(own$verdict, unname(score_verdicts)))
  rest <- counts[-1][counts[-1] > 0]
  words <- c(misses = "missed", inconclusive = "inconclusive", "not measured" = "not measured")
  paste0(
    counts[[1]], " of ", nrow(own), " criteria are met",
    if (length(rest) > 0) paste0("; ", enumerate(paste(rest, words[names(rest)]))), ".",
    if (any(own$verdict == "misses")) {
      paste0(" Missed: ", enumerate(paste0(
        own$criterion[own$verdict == "misses"], " (", own$section[own$verdict == "misses"], ")"
      ), 20), ".")
    }
  )
}

# Emphasise verdicts other than `meets`.
highlight_verdict <- function(verdict) {
  ifelse(verdict == "meets", verdict, paste0("*", verdict, "*"))
}

# Shorten a limit such as "at most 4" for a narrow column.
short_limit <- function(limit) {
  # Use a non-breaking space.
  sub("at least ", "\u2265\u00a0", sub("at most ", "\u2264\u00a0", limit))
}

# Format a number with its confidence interval, if it has one.
number_of <- function(rows) {
  short_or_nothing <- function(x, digits) short(x, digits, "")
  with_interval(rows$value, rows$low, rows$high, 3, as = short_or_nothing)
}

show_criteria <- function(own, card) {
  shown <- own |>
    dplyr::transmute(
      Section = section, Criterion = criterion, Number = number_of(own), Unit = unit,
      n = ifelse(n > 0, as.character(n), ""), Limit = short_limit(limit)
    )
  for (name in setdiff(card$baselines, card$name)) {
    rows <- card$criteria[card$criteria$algorithm == name, ]
    value <- rows$value[match(own$criterion, rows$criterion)]
    shown[[card$labels[[name]]]] <- ifelse(is.na(value), "", short(value, 2))
  }
  shown$Verdict <- highlight_verdict(own$verdict)
  show_table(shown)
}

# Write each section: requirement, results, figure, and reasons for the limits.
show_sections <- function(own, card) {
  for (part in card$suite$sections) {
    rows <- own[own$section == part$section, ]
    if (nrow(rows) == 0) next
    cat("\n\n# ", part$section, " ", part$title, " {.unnumbered}\n\n", part$asks, "\n\n", sep = "")
    for (i in seq_len(nrow(rows))) cat(sentence_of(rows[i, ], card), "\n", sep = "")
    figure <- paste0(card$name, "_", gsub("[.]", "-", part$section), ".svg")
    if (file.exists(figure)) {
      cat("\n![", strip_caption(part), "](", figure, "){#fig-", gsub("[.]", "-", part$section),
        " width=100%}\n",
        sep = ""
      )
    }
  }
}

strip_caption <- function(part) {
  paste0(
    "Section ", part$section, ": numbers with 95 % confidence intervals. Shaded: misses the limit."
  )
}

sentence_of <- function(row, card) {
  cells <- paste0(" It uses [", cells_in_words(row), "](#the-runs).")
  found <- if (is.na(row$value)) {
    paste0("not measured: ", escape_markdown(row$absent))
  } else {
    paste0(number_of(row), " ", row$unit, ", ", row$limit, ": ", highlight_verdict(row$verdict))
  }
  whose <- c(ours = "ours", source = "the RFC's", published = "published")
  paste0(
    "- **", row$criterion, "**: ", row$title, " ", found, ".",
    if (!is.na(row$absent) && row$absent != "" && !is.na(row$value)) {
      paste0(" (", escape_markdown(row$absent), ".)")
    },
    cells, " The limit is ", whose[[row$limit_is]], ": ", full_stop(row$limit_because)
  )
}

cells_of_row <- function(row) {
  if (is.na(row$cells)) character() else strsplit(row$cells, " ")[[1]]
}

cells_in_words <- function(row) {
  count <- length(cells_of_row(row))
  paste(
    if (count == 1) "one cell" else paste(count, "cells"), "of", row$scenario
  )
}

show_not_covered <- function(card) {
  titles <- vapply(card$suite$sections, `[[`, "", "title")
  names(titles) <- vapply(card$suite$sections, `[[`, "", "section")
  left <- card$suite$not_covered
  tibble::tibble(
    Section = vapply(left, `[[`, "", "section"),
    Title = titles[Section],
    Why = vapply(left, `[[`, "", "why")
  ) |>
    show_table()
}

runs_of_card <- function(own, card) {
  names <- unique(unlist(lapply(seq_len(nrow(own)), \(i) cells_of_row(own[i, ]))))
  card$cells[match(names, card$cells$cell), ]
}

rerun_example <- function(own, card) {
  rows <- runs_of_card(own, card)
  paste0("`losslab rerun ", card$folder, "/results/cells/score/", rows$cell[1], "/0`")
}

show_card_runs <- function(own, card) {
  rows <- runs_of_card(own, card)
  tibble::tibble(
    Scenario = rows$block,
    Cell = paste0("[", breakable(rows$cell), "](results/cells/score/", rows$cell, "/)"),
    Runs = rows$n_replicates,
    Valid = rows$n_valid
  ) |>
    show_table()
}

count_card_verdicts <- function(criteria) {
  labels <- read_card()$labels
  counts <- table(
    factor(criteria$algorithm, unique(criteria$algorithm)),
    factor(criteria$verdict, unname(score_verdicts))
  )
  dplyr::bind_cols(
    tibble::tibble(Algorithm = labels[rownames(counts)]),
    tibble::as_tibble(as.data.frame.matrix(counts))
  ) |>
    dplyr::rename_with(capital) |>
    show_table()
}

# Tabulate the numbers: a row per criterion, a column per algorithm.
criteria_side_by_side <- function(rows, labels) {
  if (nrow(rows) == 0) {
    return(show_table(tibble::tibble(Criterion = character())))
  }
  number <- ifelse(is.na(rows$value), "", short(rows$value, 3))
  rows$shown <- dplyr::case_when(
    number == "" ~ "",
    rows$verdict == "misses" ~ paste0("*", number, "*"),
    rows$verdict == "inconclusive" ~ paste0("(", number, ")"),
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
