# The gains of the paper's replication and ours over those of the paper, in the conditions that we
# measured.
height_cm <- 9.5
shown <- function(cells) filter(cells, !block %in% c("published", other_blocks))

testbed_colours <- c(
  "replication, Linux 4.15" = "#CC79A7", "replication, Linux 5.15" = "#E69F00", "ours" = "#000000"
)

draw <- function(data) {
  ours <- without_loss(gains(data$replicates))
  published <- of_testbeds(data$published) |> semi_join(ours, by = grid_axes)
  paper <- published |>
    filter(source == "cao2019") |>
    select(all_of(grid_axes), paper_ratio = ratio)
  testbeds <- bind_rows(filter(published, source != "cao2019"), mutate(ours, source = "ours")) |>
    inner_join(paper, by = grid_axes) |>
    select(source, all_of(grid_axes), paper_ratio, ratio, low, high) |>
    mutate(
      source = factor(
        sub("datta2023 \\((.*)\\)", "replication, \\1", source), names(testbed_colours)
      ),
      buffer = factor(
        label_bytes(buffer_packets), label_bytes(sort(unique(buffer_packets)))
      )
    )
  if (nrow(paper) < least_conditions) testbeds <- testbeds[0, ]

  ggplot(testbeds, aes(paper_ratio, ratio / paper_ratio, colour = source)) +
    geom_hline(yintercept = c(1 / 1.25, 1.25), colour = "grey60", linetype = "dotted") +
    geom_hline(yintercept = 1, colour = "grey60", linewidth = 0.4) +
    geom_vline(xintercept = 1, colour = "grey80", linewidth = 0.4) +
    geom_point(aes(shape = source), size = 1.8, alpha = 0.8) +
    facet_wrap(vars(buffer)) +
    scale_x_log10(breaks = c(0.8, 1, 1.25, 1.6, 2)) +
    scale_y_log10(breaks = c(0.5, 0.8, 1, 1.25, 2, 5, 10, 20)) +
    scale_colour_manual(values = testbed_colours) +
    scale_shape_manual(values = c(1, 0, 17)) +
    labs(
      x = "BBR over CUBIC in the paper", y = "That in another testbed over the paper's",
      colour = NULL, shape = NULL
    ) +
    theme_losslab()
}
