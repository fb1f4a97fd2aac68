# The source's figure 1: congestion window over time without added loss, in both set-ups.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
cwnd <- read_measured(snakemake@input[["flows"]]) |>
  dplyr::filter(block %in% c("published", "routers"), loss_percent == 0)
figure <- draw_windows(cwnd, algorithms, "flow's")
missing <- missing_cells(
  read_cells(snakemake@input[["cells"]]),
  block %in% c("published", "routers"), loss_percent == 0
)
save_figure(figure, unlist(snakemake@output), height_cm = 8, missing = missing)
