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
    show_table(align = "lllll")
}

# Compare the recorded verdicts of two families of seeds; NULL unless both are recorded.
read_families <- function(first = "quick.tsv", second = "quick-fresh.tsv") {
  if (!all(file.exists(c(first, second)))) {
    return(NULL)
  }
  dplyr::inner_join(
    read_history(first)[c("study", "claim", "verdict", "cause")],
    read_history(second)[c("study", "claim", "verdict", "cause")],
    by = c("study", "claim"), suffix = c("_first", "_second")
  )
}

# Get the causes of the claims' verdicts that hold with both recorded families of seeds, too; "" for
# others. A claim that is reproduced with one family needs no cause there.
lasting_causes <- function(claims, families) {
  if (is.null(families)) {
    return(rep("", nrow(claims)))
  }
  explained <- explained_in(families, "first") & explained_in(families, "second")
  lasting <- paste(families$study, families$claim)[explained]
  ifelse(paste(claims$study, claims$claim) %in% lasting, as_text(claims$cause, ""), "")
}

explained_in <- function(families, which) {
  families[[paste0("verdict_", which)]] == "reproduced" |
    families[[paste0("cause_", which)]] != "none"
}

# State how many predictions are within their margin, or have a cause that runs show, with both
# families of seeds; "" unless both are recorded.
explained_text <- function(claims, families) {
  if (is.null(families)) {
    return("")
  }
  predicted <- claims[claims$evidence == "predicted", c("study", "claim")]
  rows <- dplyr::inner_join(predicted, families, by = c("study", "claim"))
  if (nrow(rows) == 0) {
    return("")
  }
  within <- rows$verdict_first == "reproduced" & rows$verdict_second == "reproduced"
  explained <- explained_in(rows, "first") & explained_in(rows, "second")
  scatter <- rows$cause_first == "scatter" | rows$cause_second == "scatter"
  paste0(
    "With both recorded families of seeds, ", sum(explained), " of ", nrow(rows), " predictions (",
    round(100 * mean(explained)), " %) are within their margin or have a cause that runs show. ",
    "Within the margin: ", sum(within), "; another value without the cause: ",
    sum(explained & !within & !scatter), "; inconclusive, and less scatter without the cause: ",
    sum(explained & !within & scatter), "."
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
    " of them are the opposite. Runs show the cause of ", sum(families$cause_first != "none"),
    " verdicts with the first family and of ", sum(families$cause_second != "none"),
    " with the second."
  )
  paste(c(text, "", if (nrow(apart) > 0) lines), collapse = "\n")
}
