# The source's figures 6 (CUBIC) and 7 (BBR): window of the video's connection with added loss.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
cwnd <- read_measured(snakemake@input[["flows"]]) |>
  dplyr::filter(block %in% c("published-video", "routers-video"))
figure <- draw_windows_by_loss(cwnd, algorithms)
missing <- missing_cells(
  read_cells(snakemake@input[["cells"]]),
  block %in% c("published-video", "routers-video")
)
save_figure(figure, unlist(snakemake@output), height_cm = 11, missing = missing)
