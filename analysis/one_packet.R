# Draw what single losses cost (`python -m bench.one_packet`): a point per replicate, and means.

height_cm <- 8

read <- function(path) {
  readr::read_csv(path, col_types = readr::cols(panel = "c", .default = "d")) |>
    mutate(panel = in_order(panel))
}

draw <- function(costs, algorithms) {
  means <- distinct(costs, panel, loss, mean_kb, low_kb, high_kb)
  figure <- ggplot(costs, aes(loss, cost_kb)) +
    geom_hline(yintercept = 0, colour = "grey60", linewidth = 0.3) +
    geom_point(colour = "grey55", size = 0.7, alpha = 0.6) +
    geom_pointrange(
      aes(y = mean_kb, ymin = low_kb, ymax = high_kb), data = means, size = 0.3, linewidth = 0.6
    ) +
    facet_wrap(vars(panel), scales = "free_y") +
    scale_x_continuous(breaks = unique(means$loss), minor_breaks = NULL) +
    labs(x = "Loss since the start of the traffic", y = "Cost of the loss (kB)") +
    theme_losslab()
  with_note(figure, paste0(
    "Grey: ", nrow(costs) / nrow(means),
    " replicates. Black: their means with 95 % confidence intervals."
  ))
}
