# The published numbers of the three data sets, for the scoreboard. Rows with the source `model` are
# the numbers of bench/predictions.py, which nobody published.
predictions_numbers <- function(published) {
  rows <- published |>
    dplyr::filter(source != "model") |>
    dplyr::transmute(
      source, algorithm, rate_mbit, rtt_ms, offloads, loss_percent,
      place = paste0(
        toupper(algorithm), ", ", rate_mbit, " Mbit/s, ", rtt_ms, " ms, ", loss_percent, " %"
      ),
      blocks = dplyr::case_when(
        source == "rebbr (jervisfm)" ~ "behind", source == "jittertrap (acooks 2025)" ~ "window",
        loss_percent == 0 ~ "two-bbr3", TRUE ~ "aggregates"
      ),
      metric = "goodput_mbit", published = goodput_mbit, published_runs = 1,
      competitor_goodput_mbit
    )
  others <- dplyr::filter(rows, !is.na(competitor_goodput_mbit)) |>
    dplyr::mutate(metric = "flows_goodput_mbit", published = competitor_goodput_mbit)
  dplyr::bind_rows(rows, others) |>
    dplyr::select(-competitor_goodput_mbit)
}
