# BBR over CUBIC, paired by replicate, with the published ratio of means.
height_cm <- 8.5
shown <- function(cells) filter(cells, block == "main", app == "iperf3")

draw <- function(data) {
  ratios <- data$ratios |>
    filter(block == "main", app == "iperf3") |>
    mutate(path = label_paths(path))
  published <- data$published |>
    select(algorithm, path, loss_percent, mean) |>
    tidyr::pivot_wider(names_from = algorithm, values_from = mean) |>
    filter(!is.na(cubic)) |>
    mutate(path = label_paths(path), mean = bbr / cubic)
  ends <- bind_rows(measured = ratios, published = published, .id = "whose") |>
    line_ends("loss_percent", "mean", "whose", "path", log_y = TRUE, gap = 0.06)

  ggplot(ratios, aes(loss_percent, mean)) +
    geom_hline(yintercept = 1, colour = "grey60") +
    geom_ribbon(aes(ymin = mean_low, ymax = mean_high), alpha = 0.2) +
    geom_line(aes(linetype = "measured")) +
    geom_point(size = 1.5) +
    geom_line(aes(linetype = "published"), data = published) +
    facet_wrap(vars(path)) +
    name_lines(ends, "loss_percent", "whose", coloured = FALSE) +
    scale_x_continuous(breaks = seq(0, 10, 2), expand = room_for_names(0.45)) +
    scale_y_log10() +
    scale_linetype_manual(values = c(measured = "solid", published = "22"), guide = "none") +
    labs(x = "Packet loss (%)", y = "Goodput of BBR / CUBIC") +
    theme_losslab()
}
