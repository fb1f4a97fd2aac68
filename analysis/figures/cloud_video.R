# The source's figure 5: congestion window of the video's connection without added loss.
for (path in unlist(snakemake@input[["functions"]])) source(path)
open_log(snakemake@log[[1]])

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
cwnd <- read_measured(snakemake@input[["flows"]]) |>
  dplyr::filter(block %in% c("published-video", "routers-video"), loss_percent == 0)
save_figure(draw_windows(cwnd, algorithms, "stream's"), unlist(snakemake@output), height_cm = 7.5)
