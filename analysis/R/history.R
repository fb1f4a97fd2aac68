# The history of the claims' limits, and the recorded verdicts on two families of seeds.

# Read the versions of all limits (report/claims/history.tsv), oldest first.
read_history <- function(path) {
  readr::read_tsv(path, col_types = readr::cols(.default = "c"))
}

# Summarise each claim's limit: date of its first version, its versions, and the effect and reason
# of the last one.
versions_of_limits <- function(history) {
  history |>
    dplyr::group_by(study, claim) |>
    dplyr::summarise(
      since = dplyr::first(date),
      versions = paste(limit[!duplicated_run(limit)], collapse = "; "),
      n = sum(!duplicated_run(limit)), seen = any(results_seen[-1] == "yes"),
      effect = dplyr::last(effect), why = dplyr::last(why), .groups = "drop"
    )
}

duplicated_run <- function(x) c(FALSE, x[-1] == x[-length(x)])

# Count the limits that changed.
history_text <- function(versions) {
  changed <- versions[versions$n > 1, ]
  paste0(
    nrow(changed), " of ", nrow(versions), " limits have more than one version, ",
    sum(changed$seen), " of them because of changes after results had been seen."
  )
}

show_history <- function(versions) {
  versions |>
    dplyr::filter(n > 1) |>
    dplyr::transmute(
      Claim = paste0(study, "/", claim), `First set` = since, Versions = versions,
      Effect = as_text(effect, ""), `Reason of the last` = why
    ) |>
    show_table(align = "lllll", widths = c(22, 10, 26, 16, 36))
}

# Compare the recorded verdicts of two families of seeds; NULL unless both are recorded.
read_families <- function(first = "quick.tsv", second = "quick-fresh.tsv") {
  if (!all(file.exists(c(first, second)))) {
    return(NULL)
  }
  dplyr::inner_join(
    read_history(first)[c("study", "claim", "verdict")],
    read_history(second)[c("study", "claim", "verdict")],
    by = c("study", "claim"), suffix = c("_first", "_second")
  )
}

# State how many verdicts differ between the families, and list them.
families_text <- function(families) {
  if (is.null(families)) {
    return("")
  }
  apart <- families[families$verdict_first != families$verdict_second, ]
  turned <- (apart$verdict_first == "reproduced" & apart$verdict_second == "not reproduced") |
    (apart$verdict_first == "not reproduced" & apart$verdict_second == "reproduced")
  lines <- paste0(
    "- ", apart$study, "/", apart$claim, ": ", apart$verdict_first, ", then ", apart$verdict_second
  )
  text <- paste0(
    "The limits were chosen on the first family of seeds. With a second family, ", nrow(apart),
    " of ", nrow(families), " recorded verdicts are different; ", sum(turned),
    " of them are the opposite."
  )
  paste(c(text, "", if (nrow(apart) > 0) lines), collapse = "\n")
}
