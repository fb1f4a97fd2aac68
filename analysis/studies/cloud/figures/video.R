# The source's figure 5: congestion window of the video's connection without added loss.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
cwnd <- read_measured(snakemake@input[["flows"]]) |>
  dplyr::filter(block %in% c("published-video", "routers-video"), loss_percent == 0)
figure <- draw_windows(cwnd, algorithms, "stream's")
missing <- missing_cells(
  read_cells(snakemake@input[["cells"]]),
  block %in% c("published-video", "routers-video"), loss_percent == 0
)
save_figure(figure, unlist(snakemake@output), height_cm = 7.5, missing = missing)
