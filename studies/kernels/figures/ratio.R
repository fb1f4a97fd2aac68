# Goodput on other kernels over that on 6.12, per condition, with confidence interval.
height_cm <- 8
shown <- function(cells) filter(cells, block %in% c("loss", "shallow"))

draw <- function(data) {
  ratios <- kernel_ratios(kernel_pairs(data$replicates)) |>
    mutate(
      condition = kernel_condition(block, loss_percent, rtt_ms, rate_mbit),
      condition = factor(condition, rev(unique(condition))), kernel = paste("Linux", kernel)
    )

  ggplot(ratios, aes(ratio, condition, colour = algorithm, shape = algorithm)) +
    geom_vline(xintercept = 1, linewidth = 0.3) +
    geom_linerange(
      aes(xmin = low, xmax = high), position = position_dodge(width = 0.5), na.rm = TRUE
    ) +
    geom_point(size = 2, position = position_dodge(width = 0.5)) +
    facet_wrap(vars(kernel)) +
    scale_x_log10() +
    algorithm_scales(data$algorithms) +
    labs(x = paste0("Goodput over that on Linux ", reference_kernel), y = NULL) +
    theme_losslab() +
    theme(panel.spacing.x = unit(8, "mm"))
}
