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
      tibble::as_tibble(ratio_interval(
        value[bucket], value[!bucket], FALSE, level_of(max(dplyr::coalesce(error_share, 1)))
      )),
      with_bucket = mean(value[bucket]), with_link = mean(value[!bucket]), .groups = "drop"
    ) |>
    with_columns(c("n", "value", "low", "high", "with_bucket", "with_link")) |>
    dplyr::mutate(metric = rep(metric, dplyr::n()), ratio = value)
}

# Describe a ratio in words: "1.2 times (1.1 to 1.3)".
times_text <- function(rows) {
  paste0(
    short(rows$ratio), " times", ifelse(
      is.na(rows$low), "", paste0(" (", short(rows$low), " to ", short(rows$high), ")")
    )
  )
}
