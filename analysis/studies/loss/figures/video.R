# What a viewer of the video notices, over loss.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
metric_labels <- c(
  time_to_first_frame_s = "First frame (s)", stall_s = "Stalled (s)",
  frames_on_time_percent = "Frames on time (%)", completion_s = "Completion time (s)"
)
video <- read_measured(snakemake@input[["summary"]]) |>
  filter(
    block == "main", app == "ffmpeg", statistic_over == "replicates",
    metric %in% names(metric_labels)
  ) |>
  mutate(
    path = label_paths(path),
    metric = factor(metric_labels[metric], levels = metric_labels)
  )

figure <- ggplot(video, aes(loss_percent, mean, colour = algorithm)) +
  geom_linerange(aes(ymin = min, ymax = max), alpha = 0.4, position = position_dodge(0.3)) +
  geom_line(position = position_dodge(0.3)) +
  geom_point(aes(shape = algorithm), size = 1.5, position = position_dodge(0.3)) +
  facet_grid(vars(metric), vars(path), scales = "free_y", switch = "y") +
  scale_x_continuous(breaks = seq(0, 10, 2)) +
  expand_limits(y = 0) +
  algorithm_scales(algorithms) +
  labs(x = "Packet loss (%)", y = NULL) +
  theme_losslab() +
  theme(strip.placement = "outside", strip.text.y.left = element_text(angle = 90, hjust = 0.5))
missing <- missing_cells(read_cells(snakemake@input[["cells"]]), block == "main", app == "ffmpeg")
save_figure(figure, unlist(snakemake@output), height_cm = 17, missing = missing)
