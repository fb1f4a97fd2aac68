# A token bucket against an exact link, in cells that differ only in the axis `shaper`.

# Compare a metric between the two shapers: both means, and the ratio of the geometric means with
# its confidence interval. The seeds differ, so the runs are not pairs.
shaper_ratios <- function(replicates, metric) {
  replicates |>
    with_columns(c(metric, "error_share")) |>
    dplyr::mutate(value = as.numeric(.data[[metric]]), bucket = shaper == "tbf") |>
    dplyr::filter(valid, shaper %in% c("tbf", "link"), !is.na(value)) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(setdiff(condition_columns, "shaper")))) |>
    dplyr::filter(dplyr::n_distinct(shaper) == 2) |>
    dplyr::summarise(
      n = min(sum(bucket), sum(!bucket)),
      # Before the ratio, whose column is `value`, too.
      with_bucket = mean(value[bucket]), with_link = mean(value[!bucket]),
      tibble::as_tibble(ratio_interval(
        value[bucket], value[!bucket], FALSE, level_of(max(dplyr::coalesce(error_share, 1)))
      )),
      .groups = "drop"
    ) |>
    with_columns(c("n", "value", "low", "high", "with_bucket", "with_link")) |>
    dplyr::mutate(metric = rep(metric, dplyr::n()), ratio = value)
}

# Describe the ratio of a table's only row in words: "1.2 (1.1 to 1.3) times".
times_text <- function(rows) {
  if (nrow(rows) != 1) {
    return(not_measured)
  }
  ratio <- with_interval(rows$ratio, rows$low, rows$high, 3, as = short)
  paste(sub(" (deterministic)", "", ratio, fixed = TRUE), "times")
}
