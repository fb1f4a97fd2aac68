# The source's figures 3 (CUBIC) and 4 (BBR): congestion window over time with added loss.
for (path in unlist(snakemake@input[["functions"]])) source(path)
open_log(snakemake@log[[1]])
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
cwnd <- read_measured(snakemake@input[["flows"]]) |>
  filter(block %in% c("published", "routers")) |>
  mutate(
    setup = label_setups(sender_delay_ms), loss = label_losses(loss_percent),
    label = setNames(algorithms$label, algorithms$name)[algorithm]
  )

figure <- ggplot(cwnd, aes(t_s, cwnd_packets, colour = loss)) +
  geom_step(linewidth = 0.4) +
  facet_grid(rows = vars(label), cols = vars(setup), scales = "free_y") +
  scale_colour_viridis_d(end = 0.85) +
  guides(colour = guide_legend(override.aes = list(linewidth = 1))) +
  labs(
    x = "Time since the flow's start (s)", y = "Congestion window (packets)", colour = "Added loss"
  ) +
  theme_losslab()
save_figure(figure, unlist(snakemake@output), height_cm = 11)
