# Harm (Ware, Mukerjee, Seshan and Sherry, "Beyond Jain's fairness index", HotNets 2019): the share
# of a flow's solo performance that other flows take, from 0 (none) to 1 (all). It is
# (solo - shared) / solo if more is better, and (shared - solo) / shared if less is better. It is
# negative if the flow performs better with other flows.

# Pair runs of a cell alone and with background flows (`flows`), which have the same seed. Return a
# row for each run with background flows, with `solo`, `shared` and `harm`.
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

# Summarise the harm of each cell with background flows, over its pairs.
summarise_harm <- function(replicates, metric = "goodput_mbit", less_is_better = FALSE) {
  keys <- c("block", setdiff(condition_columns, "second_rate_mbit"))
  paired_harm(replicates, metric, less_is_better) |>
    dplyr::arrange(replicate) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(keys))) |>
    describe_groups("harm")
}
