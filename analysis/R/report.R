# What the workflow tells the report, and the verdicts with two families of seeds.

# Facts of the report, from report.json: `campaign` and `command`, the `renderer`, the `labels` of
# all chapters, whether the verdicts are `recorded` (then each sentence must hold), the values of
# axes that studies have `declared`, and the verdicts of the `families`.
report <- new.env()
report$recorded <- FALSE
report$labels <- character()
report$declared <- list()

read_report <- function(path = "report.json") list2env(jsonlite::fromJSON(path), report)

# Write the end of the report's title: the campaign's name, if it has one.
title_of_campaign <- function(path = "report.json") {
  name <- jsonlite::fromJSON(path)$campaign
  if (name == "") "" else paste0(": the campaign *", escape_markdown(name), "*")
}

# Get the causes of the claims' verdicts that hold with both recorded families of seeds, too; "" for
# others. `families` has a row for each claim with its verdict with the `first` and `second` family,
# and what explains it with both (losslab.campaign.verdicts): "" if nothing does.
lasting_causes <- function(claims, families) {
  lasting <- families$claim[families$explained != ""]
  ifelse(paste0(claims$study, "/", claims$claim) %in% lasting, as_text(claims$cause, ""), "")
}

# List the verdicts that differ between the families.
families_text <- function(families) {
  if (NROW(families) == 0) {
    return("")
  }
  apart <- families[families$first != families$second, ]
  text <- paste0(
    "The limits were chosen on the first family of seeds. With a second family, ", nrow(apart),
    " of ", nrow(families), " recorded verdicts are different."
  )
  lines <- paste0("- ", apart$claim, ": ", apart$first, ", then ", apart$second)
  paste(c(text, "", if (nrow(apart) > 0) lines), collapse = "\n")
}
