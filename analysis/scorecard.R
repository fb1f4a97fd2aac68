# Draw a scorecard's figures (`losslab score`): for each tested algorithm a strip per criterion, by
# section, and a comparison of all algorithms.
#
# Arguments: the table of criteria, algorithms.tsv, the folder of the figures, the number of
# function files, these files, and the algorithms.
arguments <- commandArgs(trailingOnly = TRUE)
n_functions <- as.integer(arguments[4])
for (path in arguments[4 + seq_len(n_functions)]) source(path)
one_locale()
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

criteria <- read_criteria(arguments[1])
algorithms <- read_algorithms(arguments[2])
tested <- utils::tail(arguments, -(4 + n_functions))
nothing_missing <- tibble(cell = character())

save <- function(figure, name, height_cm) {
  path <- file.path(arguments[3], paste0(name, ".svg"))
  save_figure(figure, path, height_cm, nothing_missing)
}

for (subject in tested) {
  for (part in unique(criteria$section)) {
    baselines <- baselines_of(criteria, tested)
    rows <- filter(criteria, section == part, algorithm %in% c(subject, baselines))
    if (all(is.na(rows$value))) next
    save(
      draw_strips(rows, subject, algorithms), paste0(subject, "_", gsub("[.]", "-", part)),
      height_cm = strips_height_cm(rows)
    )
  }
}
save(draw_verdicts(criteria, algorithms), "comparison", height_cm = verdicts_height_cm(criteria))
