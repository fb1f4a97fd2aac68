# Goodput of each stack and algorithm, alone and beside a flow of the kernel's CUBIC.
height_cm <- 9
shown <- function(cells) filter(cells, block == "stacks")

draw <- function(data) {
  measured <- data$summary |>
    filter(block == "stacks", metric == "goodput_mbit", statistic_over == "replicates") |>
    with_stacks() |>
    mutate(
      stack = forcats::fct_rev(forcats::fct_relevel(stack, "kernel")),
      condition = paste0(
        loss_percent, " % loss, ", ifelse(flows == "none", "alone", "beside the kernel's CUBIC")
      )
    )

  ggplot(measured, aes(mean, stack, colour = algorithm, shape = algorithm)) +
    geom_linerange(
      aes(xmin = mean_low, xmax = mean_high), position = position_dodge(width = 0.5), na.rm = TRUE
    ) +
    geom_point(size = 2, position = position_dodge(width = 0.5)) +
    facet_wrap(vars(condition)) +
    scale_x_continuous(limits = c(0, NA)) +
    algorithm_scales(data$algorithms) +
    labs(x = metric_titles[["goodput_mbit"]], y = NULL) +
    theme_losslab() +
    theme(panel.spacing.x = unit(8, "mm"))
}
