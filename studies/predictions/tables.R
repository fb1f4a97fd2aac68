# CUBIC and BBRv3 with lost aggregates and with lost packets, beside the published means and the model.
tables <- function(data, write) {
  keys <- c("block", "algorithm", "rtt_ms", "offloads")
  expected <- data$published |>
    filter(loss_percent == 0.025) |>
    group_by(algorithm, rtt_ms, offloads) |>
    summarise(
      published = mean(goodput_mbit[source != "model"]),
      published_runs = sum(source != "model"),
      model = mean(goodput_mbit[source == "model"]),
      .groups = "drop"
    )
  of_block <- data$summary |>
    filter(block %in% c("aggregates", "packets"), statistic_over == "replicates")
  cuts <- of_block |>
    filter(metric == "window_cuts_per_s") |>
    select(all_of(keys), cuts_per_s = mean)
  of_block |>
    filter(metric == "goodput_mbit") |>
    select(all_of(keys), n, mean, std, low = mean_low, high = mean_high) |>
    left_join(cuts, by = keys) |>
    left_join(expected, by = keys[-1]) |>
    arrange(block, desc(algorithm), rtt_ms, desc(offloads)) |>
    write("aggregates")
}
