# The source's figures 3 (CUBIC) and 4 (BBR): congestion window over time with added loss.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
cwnd <- read_measured(snakemake@input[["flows"]]) |>
  dplyr::filter(block %in% c("published", "routers"))
figure <- draw_windows_by_loss(cwnd, algorithms)
missing <- missing_cells(
  read_cells(snakemake@input[["cells"]]),
  block %in% c("published", "routers")
)
save_figure(figure, unlist(snakemake@output), height_cm = 11, missing = missing)
