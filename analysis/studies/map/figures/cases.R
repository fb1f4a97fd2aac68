# The factorial's best case for each algorithm: congestion window over time, first replicate.
height_cm <- 11
shown <- function(cells) filter(cells, block == "published")

draw <- function(data) {
  axes <- c("rtt_ms", "rate_mbit", "buffer_packets", "loss_percent")
  factorial <- gains(data$replicates) |>
    filter(block == "published")
  extremes <- bind_rows(
    slice_max(factorial, ratio, n = 1, with_ties = FALSE),
    slice_min(factorial, ratio, n = 1, with_ties = FALSE)
  ) |>
    mutate(
      case = paste0(
        c("Best for BBR: ", "Best for CUBIC: ")[row_number()],
        rtt_ms, " ms, ", rate_mbit, " Mbit/s,\n",
        label_bytes(buffer_packets), ", ", loss_percent, " % loss"
      ),
      case = factor(case, case)
    ) |>
    select(all_of(axes), case)
  panels <- c(cwnd = "Window (packets)", goodput = "Goodput (Mbit/s)")
  cwnd <- data$flows |>
    filter(block == "published", cwnd_packets > 0) |>
    select(all_of(axes), algorithm, t_s, value = cwnd_packets)
  goodput <- data$intervals |>
    filter(block == "published", replicate == 0) |>
    select(all_of(axes), algorithm, t_s, value = goodput_mbit)
  samples <- bind_rows(cwnd = cwnd, goodput = goodput, .id = "what") |>
    inner_join(extremes, by = axes) |>
    mutate(what = factor(panels[what], panels))

  ggplot(samples, aes(t_s, value, colour = algorithm)) +
    geom_step(linewidth = 0.4) +
    facet_grid(rows = vars(what), cols = vars(case), scales = "free_y", switch = "y") +
    scale_y_log10(labels = scales::label_number(drop0trailing = TRUE, big.mark = "")) +
    algorithm_scales(data$algorithms) +
    guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
    labs(x = "Time since the start (s)", y = NULL) +
    theme_losslab() +
    theme(strip.placement = "outside")
}
