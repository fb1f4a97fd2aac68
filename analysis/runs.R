# Draw single runs (`losslab plot`): a row per quantity, a column per condition, and all algorithms
# in one panel.

# Quantities drawn with a solid line.
solid <- c(
  "cwnd", "received", "carried by the link", "acknowledged", "delivery rate of TCP",
  "smoothed by TCP", "queue", "retransmissions"
)
line_types <- c("dashed", "dotted", "dotdash", "longdash", "twodash")

read <- function(path) {
  readr::read_csv(
    path,
    col_types = readr::cols(
      run = "i", algorithm = "c", condition = "c", valid = "l", reasons = "c", warmup_s = "d",
      panel = "c", name = "c", flow = "c", t_s = "d", value = "d", cut = "l"
    )
  ) |>
    mutate(
      condition = in_order(coalesce(condition, "")),
      panel = in_order(sub(" (", "\n(", panel, fixed = TRUE)),
      flow = coalesce(flow, ""),
      kind = ifelse(name %in% solid, "", name)
    ) |>
    # The only line of a panel, such as a variable of the state, needs no line type.
    group_by(panel) |>
    mutate(kind = if (n_distinct(name) == 1) "" else kind) |>
    ungroup()
}

# List the other line types for the caption.
line_words <- function(runs) {
  other <- setdiff(unique(runs$kind), "")
  if (length(other) == 0) {
    return("")
  }
  words <- paste0(line_types[seq_along(other)], ": ", other, collapse = "; ")
  paste0(toupper(substr(words, 1, 1)), substring(words, 2), ". ")
}

caption_words <- function(runs) {
  shown <- distinct(runs, run, algorithm, condition, valid, reasons)
  invalid <- shown[!shown$valid, ]
  instead <- c("carried by the link", "acknowledged", "delivery rate of TCP")
  uncounted <- paste(intersect(instead, runs$name), collapse = ", ")
  words <- paste0(
    line_words(runs),
    if (uncounted != "") paste0("Goodput not counted at the receiver: ", uncounted, ". "),
    "Grey: the warm-up, which enters no statistic. ",
    if (any(runs$cut)) {
      panels <- unique(sub("\n.*", "", runs$panel[runs$cut]))
      paste0("Not drawn: peaks of the warm-up beyond the axis (", toString(panels), "). ")
    },
    n_distinct(shown$run), if (n_distinct(shown$run) == 1) " run." else " runs."
  )
  if (nrow(invalid) > 0) {
    words <- paste0(
      words, " INVALID, enters no statistic: ",
      paste(invalid$algorithm, invalid$condition, invalid$reasons, collapse = "; "), "."
    )
  }
  words
}

draw <- function(runs, algorithms) {
  # The phases of a congestion control are rows without a panel, with their end as value.
  phases <- filter(runs, is.na(panel))
  runs <- filter(runs, !is.na(panel))
  other <- setdiff(unique(runs$kind), "")
  warmup <- runs |>
    filter(warmup_s > 0) |>
    distinct(condition, panel, warmup_s)
  figure <- ggplot(runs, aes(t_s, value)) +
    geom_rect(
      aes(xmin = -Inf, xmax = warmup_s, ymin = -Inf, ymax = Inf),
      data = warmup, inherit.aes = FALSE, fill = "grey92"
    ) +
    geom_rect(
      aes(xmin = t_s, xmax = value, ymin = -Inf, ymax = Inf, fill = in_order(name)),
      data = select(phases, -panel), inherit.aes = FALSE, alpha = 0.25
    ) +
    geom_line(
      aes(colour = algorithm, linetype = kind, group = interaction(run, name, flow)),
      linewidth = 0.3, na.rm = TRUE
    ) +
    facet_grid(vars(panel), vars(condition), scales = "free_y", switch = "y") +
    algorithm_scales(algorithms[algorithms$name %in% runs$algorithm, ]) +
    scale_fill_hue(name = NULL) +
    scale_linetype_manual(
      breaks = c("", other), values = c("solid", line_types[seq_along(other)]), guide = "none"
    ) +
    scale_y_continuous(limits = function(limits) range(0, limits), expand = expansion(c(0, 0.08))) +
    guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
    labs(x = "Time since the traffic began (s)", y = NULL) +
    theme_losslab() +
    theme(
      strip.placement = "outside",
      strip.text.y.left = element_text(face = "plain", size = 7.5, hjust = 0.5),
      axis.title.x = element_text(size = 8)
    )
  if (identical(levels(runs$condition), "")) {
    figure <- figure + theme(strip.text.x = element_blank())
  }
  of_phases <- if (nrow(phases) > 0) "Bands: phases of the run's first flow. "
  with_note(figure, paste0(of_phases, caption_words(runs)))
}

# Width of the report's figures for one or two conditions, and 5.5 cm more for each further one.
width_cm <- function(runs) 16 + 5.5 * max(0, nlevels(runs$condition) - 2)
height_cm <- function(runs) 3.5 + 3.6 * nlevels(runs$panel)
