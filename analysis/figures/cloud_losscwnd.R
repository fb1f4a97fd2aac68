# The source's figures 3 (CUBIC) and 4 (BBR): congestion window over time with added loss.
for (path in unlist(snakemake@input[["functions"]])) source(path)
open_log(snakemake@log[[1]])

algorithms <- read_algorithms(snakemake@input[["algorithms"]])
cwnd <- read_measured(snakemake@input[["flows"]]) |>
  dplyr::filter(block %in% c("published", "routers"))
save_figure(draw_windows_by_loss(cwnd, algorithms), unlist(snakemake@output), height_cm = 11)
