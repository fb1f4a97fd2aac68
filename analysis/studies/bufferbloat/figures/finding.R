# First page: download time of a page, alone and beside a CUBIC flow, by the link's queue.
height_cm <- 3.4
width_cm <- 7.5
shown <- function(cells) {
  filter(
    cells, buffer_packets == 100, algorithm == "cubic",
    block == "web" | (block == "aqm" & queue %in% c("pie", "fq_codel"))
  )
}

draw <- function(data) {
  pages <- shown(data$summary) |>
    filter(metric == "download_s", statistic_over == "replicates") |>
    mutate(
      row = if_else(
        competitor == "none", "no other flow", paste("flow,", as.character(label_queues(queue)))
      ),
      row = forcats::fct_reorder(row, mean)
    )
  ggplot(pages, aes(mean, row)) +
    geom_col(width = 0.6, fill = "#0072B2") +
    geom_text(aes(label = fixed(mean, 1)), hjust = -0.3, size = 2.8, family = "DejaVu Sans") +
    scale_x_continuous(expand = expansion(c(0, 0.2))) +
    labs(x = "Download time of a page (s)", y = NULL) +
    theme_finding()
}
