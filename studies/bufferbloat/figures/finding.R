# First page: download time of a page, alone and beside a CUBIC flow, by the link's queue: every run
# and the median.
height_cm <- 3.4
width_cm <- 7.5
shown <- function(cells) {
  filter(
    cells, buffer_packets == 100,
    block == "web" | (block == "aqm" & queue %in% c("pie", "fq_codel")),
    # Alone, the algorithm makes no difference.
    algorithm == ifelse(competitor == "none", "reno", "cubic")
  )
}

draw <- function(data) {
  pages <- shown(data$replicates) |>
    filter(valid, !is.na(download_s)) |>
    mutate(
      row = if_else(
        competitor == "none", "no other flow", paste("flow,", as.character(label_queues(queue)))
      ),
      row = forcats::fct_reorder(row, download_s)
    )
  medians <- pages |>
    group_by(row) |>
    summarise(download_s = stats::median(download_s), .groups = "drop")
  ggplot(pages, aes(download_s, row)) +
    geom_point(size = 1.2, alpha = 0.45, colour = "#0072B2") +
    geom_text(label = "|", data = medians, size = 4, colour = "#0072B2", fontface = "bold") +
    geom_text(
      aes(label = fixed(download_s, 1)), data = medians, vjust = -0.9, size = 2.6,
      family = "DejaVu Sans"
    ) +
    scale_x_continuous(limits = c(0, NA)) +
    scale_y_discrete(expand = expansion(add = c(0.4, 0.8))) +
    labs(x = "Download time of a page (s)", y = NULL) +
    theme_finding()
}
