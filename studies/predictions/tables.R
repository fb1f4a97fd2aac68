# CUBIC and BBRv3 with lost aggregates and with lost packets, beside the published means, which are
# of aggregates, and the model of CUBIC.
tables <- function(data, write) {
  keys <- c("block", "algorithm", "rtt_ms", "offloads")
  expected <- filter(data$published, loss_percent == 0.025)
  models <- expected |>
    filter(source == "model") |>
    transmute(
      block = ifelse(offloads == "on", "aggregates", "packets"), algorithm, rtt_ms,
      model = goodput_mbit
    )
  published <- expected |>
    filter(source != "model") |>
    group_by(block = "aggregates", algorithm, rtt_ms, offloads) |>
    summarise(published = mean(goodput_mbit), published_runs = n(), .groups = "drop")
  of_block <- data$summary |>
    filter(block %in% c("aggregates", "packets"), statistic_over == "replicates")
  cuts <- of_block |>
    filter(metric == "window_cuts_per_s") |>
    select(all_of(keys), cuts_per_s = mean)
  of_block |>
    filter(metric == "goodput_mbit") |>
    select(all_of(keys), n, mean, std, low = mean_low, high = mean_high) |>
    left_join(cuts, by = keys) |>
    left_join(published, by = keys) |>
    left_join(models, by = keys[1:3]) |>
    arrange(block, desc(algorithm), rtt_ms, desc(offloads)) |>
    write("aggregates")
}
