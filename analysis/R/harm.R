# Harm (Ware, Mukerjee, Seshan and Sherry, "Beyond Jain's fairness index", HotNets 2019): what of a
# flow's solo performance others take, 0 for nothing and 1 for all. Of a metric of which more is
# better it is (solo - shared) / solo, of one of which less is better (shared - solo) / shared, and
# below 0 where the flow is better off in company.

# Pairs of runs of one cell alone and with `flows` beside it: they have the same seed. A row for
# each run with others, with `solo`, `shared` and `harm`.
paired_harm <- function(replicates, metric = "goodput_mbit", less_is_better = FALSE) {
  shared <- c("block", setdiff(condition_columns, c("flows", "second_rate_mbit")), "replicate")
  runs <- dplyr::filter(replicates, valid, competitor == "none", second_rate_mbit == 0) |>
    dplyr::select(dplyr::all_of(c(shared, "flows")), value = dplyr::all_of(metric)) |>
    dplyr::filter(!is.na(value))
  alone <- dplyr::filter(runs, flows == "none") |>
    dplyr::select(dplyr::all_of(shared), solo = value)
  dplyr::filter(runs, flows != "none") |>
    dplyr::rename(shared = value) |>
    dplyr::inner_join(alone, by = shared) |>
    dplyr::mutate(
      harm = if (less_is_better) (shared - solo) / shared else (solo - shared) / solo
    )
}

# The harm of each cell with others, over its pairs.
summarise_harm <- function(replicates, metric = "goodput_mbit", less_is_better = FALSE) {
  keys <- c("block", setdiff(condition_columns, "second_rate_mbit"))
  paired_harm(replicates, metric, less_is_better) |>
    dplyr::arrange(replicate) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(keys))) |>
    describe_groups("harm")
}
