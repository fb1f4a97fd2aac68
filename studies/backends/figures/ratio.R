# Goodput on other backends over goodput on the virtual backend, per cell, with confidence interval.
height_cm <- 8.5

draw <- function(data) {
  ratios <- data$replicates |>
    backend_ratios() |>
    summarise_backend_ratios() |>
    arrange(desc(loss_percent), desc(buffer_packets), competitor) |>
    mutate(
      where = factor(backend_labels[block], backend_labels[!duplicated(backend_labels)]),
      condition = backend_condition(rtt_ms, loss_percent, buffer_packets, competitor),
      condition = factor(condition, unique(condition))
    )

  ggplot(ratios, aes(ratio, condition, colour = algorithm, shape = algorithm)) +
    geom_vline(xintercept = 1, linewidth = 0.3) +
    geom_linerange(
      aes(xmin = low, xmax = high), position = position_dodge(width = 0.5), na.rm = TRUE
    ) +
    geom_point(size = 2, position = position_dodge(width = 0.5)) +
    facet_wrap(vars(where), scales = "free", ncol = 2) +
    algorithm_scales(data$algorithms) +
    labs(x = "Goodput over the virtual backend's", y = NULL) +
    theme_losslab() +
    # Half of the last tick's label lies beside the panel.
    theme(plot.margin = margin(4, 16, 4, 4))
}
