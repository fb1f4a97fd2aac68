# Draw the demo's runs: goodput over loss (`losslab demo`). Arguments as of runs.R.
arguments <- commandArgs(trailingOnly = TRUE)
n_functions <- as.integer(arguments[3])
for (path in arguments[3 + seq_len(n_functions)]) source(path)
one_locale()
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

draw_demo <- function(runs, algorithms) {
  means <- runs |>
    group_by(algorithm, loss_percent) |>
    summarise(goodput_mbit = mean(goodput_mbit), n = n(), .groups = "drop")
  ends <- means |>
    group_by(algorithm) |>
    filter(loss_percent == max(loss_percent)) |>
    ungroup()
  counts <- paste(unique(range(means$n)), collapse = "-")
  figure <- ggplot(runs, aes(loss_percent, goodput_mbit, colour = algorithm)) +
    geom_line(data = means, linewidth = 0.5) +
    geom_point(aes(shape = algorithm), size = 1.8) +
    geom_text(
      aes(label = label_algorithms(algorithm, algorithms)),
      data = ends, hjust = 0, nudge_x = 0.12, size = 3, family = "DejaVu Sans"
    ) +
    algorithm_scales(algorithms) +
    guides(colour = "none", shape = "none") +
    scale_x_continuous(breaks = unique(runs$loss_percent), expand = expansion(c(0.04, 0.14))) +
    scale_y_continuous(limits = c(0, runs$rate_mbit[1]), expand = expansion(c(0.02, 0.04))) +
    labs(x = "Random loss (% of packets)", y = "Goodput at the receiver (Mbit/s)") +
    theme_losslab()
  with_note(figure, paste0(
    "One flow over ", runs$rate_mbit[1], " Mbit/s and ", runs$rtt_ms[1],
    " ms. Points: runs with different seeds, n = ", counts, " each; lines: their means."
  ))
}

save_figure(
  draw_demo(
    readr::read_csv(arguments[1], col_types = readr::cols(algorithm = "c", .default = "d")),
    read_algorithms(arguments[2])
  ),
  utils::tail(arguments, -(3 + n_functions)),
  height_cm = 9,
  missing = tibble(cell = character())
)
