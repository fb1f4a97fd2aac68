# Draw past and futures of a replicate (`losslab whatif`): a row per quantity, a line per future.

height_cm <- 12

read <- function(path) {
  readr::read_csv(
    path,
    col_types = readr::cols(
      run = "i", future = "c", cut_s = "d", panel = "c", t_s = "d", value = "d"
    )
  ) |>
    mutate(future = in_order(future), panel = in_order(sub(" (", "\n(", panel, fixed = TRUE)))
}

draw <- function(samples, algorithms) {
  cut_s <- samples$cut_s[1]
  past <- filter(samples, run == 0, t_s <= cut_s)
  later <- filter(samples, t_s >= cut_s)
  labels <- levels(samples$future)
  colours <- c("black", scales::hue_pal(l = 55)(length(labels) - 1))
  figure <- ggplot(later, aes(t_s, value)) +
    geom_vline(xintercept = cut_s, colour = "grey60", linetype = "dashed", linewidth = 0.3) +
    geom_line(data = past, colour = "black", linewidth = 0.4) +
    geom_line(aes(colour = future, group = run), linewidth = 0.4, na.rm = TRUE) +
    facet_grid(vars(panel), scales = "free_y", switch = "y") +
    scale_colour_manual(values = setNames(colours, labels)) +
    scale_y_continuous(limits = c(0, NA), expand = expansion(c(0, 0.08))) +
    guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
    labs(x = "Time since the traffic began (s)", y = NULL, colour = NULL) +
    theme_losslab() +
    theme(strip.placement = "outside", strip.text.y.left = element_text(face = "plain", size = 7.5))
  with_note(figure, paste0(
    "Dashed: the cut at ", cut_s, " s. Up to it, all futures are the same replicate. ",
    n_distinct(samples$run), " futures."
  ))
}
