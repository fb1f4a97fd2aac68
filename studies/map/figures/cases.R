# The two cases that the source names: congestion window and goodput over time, first replicate.
height_cm <- 11
shown <- function(cells) semi_join(filter(cells, block == "published"), cases, by = case_axes)

case_axes <- c("rtt_ms", "rate_mbit", "buffer_packets", "loss_percent")
cases <- tibble::tibble(
  case = c(
    "The source's case for BBR: 250 ms,\n1 Gbit/s, 100 KB, 7 % loss",
    "The source's case for CUBIC: 15 ms,\n30 Mbit/s, 10 MB, 0.1 % loss"
  ),
  rtt_ms = c(250, 15), rate_mbit = c(1000, 30), buffer_packets = c(66, 6605),
  loss_percent = c(7, 0.1)
)

draw <- function(data) {
  panels <- c(cwnd = "Window (packets)", goodput = "Goodput (Mbit/s)")
  cwnd <- data$flows |>
    filter(block == "published", cwnd_packets > 0) |>
    select(all_of(case_axes), algorithm, t_s, value = cwnd_packets)
  goodput <- data$intervals |>
    filter(block == "published") |>
    group_by(cell) |>
    filter(replicate == min(replicate)) |>
    ungroup() |>
    select(all_of(case_axes), algorithm, t_s, value = goodput_mbit)
  samples <- bind_rows(cwnd = cwnd, goodput = goodput, .id = "what") |>
    inner_join(cases, by = case_axes) |>
    # Without what comes after the measured time.
    filter(t_s <= max(goodput$t_s)) |>
    mutate(what = factor(panels[what], panels), case = factor(case, cases$case))

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
