# First page of the report: the findings and the campaign's description.

# Read a table of the report, or return NULL: not every campaign has every study.
table_if_there <- function(path, words = character()) {
  if (file.exists(path)) read_measured(path, words = words)
}

# Look up one row's number; NA without a table or row.
number_if_there <- function(data, column, ...) {
  if (is.null(data)) NA else look_up(data, column, ...)
}

# Goodput in Mbit/s on the loss study's symmetric path.
loss_mbit <- function(which, loss) {
  number_if_there(
    table_if_there("summary/loss/statistics.csv"), "mean",
    block == "main", algorithm == which, path == "symmetric", loss_percent == loss,
    app == "iperf3", metric == "goodput_mbit", statistic_over == "replicates"
  )
}

# The source's number for the same.
published_loss_mbit <- function(which, loss) {
  number_if_there(
    table_if_there("tables/loss/published.csv"), "mean",
    algorithm == which, path == "symmetric", loss_percent == loss
  )
}

# Decrease of goodput at a loss in percent, as text.
lost_percent <- function(which, loss, mbit = loss_mbit) {
  fixed(100 * (1 - mbit(which, loss) / mbit(which, 0)), if (which == "bbr") 1 else 0)
}

# Median download time in s of a page beside a CUBIC flow, by the name of the link's queue.
page_s <- function(name, column = "median_download") {
  rows <- table_if_there("tables/bufferbloat/aqm.csv", words = "queue")
  if (is.null(rows)) {
    return(NA)
  }
  # The block `web` comes first, with the most runs.
  look_up(dplyr::slice(dplyr::filter(rows, queue == name, algorithm == "cubic"), 1), column)
}

# Download time in s of the page without another flow; the algorithm makes no difference.
page_alone_s <- function() {
  number_if_there(
    table_if_there("tables/bufferbloat/web.csv", words = "load"), "mean_download",
    block == "web", algorithm == "reno", buffer_packets == 100, load == "alone"
  )
}

# Goodput of BBR over that of CUBIC in a set-up of the cloud study, without added loss.
gap_ratio <- function(at, column = "ratio") {
  number_if_there(table_if_there("tables/cloud/gap.csv", words = "step"), column, block == at)
}

# Value of the same with the largest buffer, where only the buffer differs from the set-up as
# published; NA without one.
gap_behind_most <- function(column) {
  rows <- table_if_there("tables/cloud/gap.csv", words = "step")
  if (is.null(rows)) {
    return(NA)
  }
  of_buffer <- rows[rows$block == "setup" & rows$setup == setup_labels[["published"]], ]
  look_up(dplyr::slice_max(of_buffer, buffer_packets, n = 1), column)
}

# Median RTT of CUBIC in the log of the cloud study's source, in ms.
logged_cubic_rtt_ms <- function() {
  number_if_there(
    table_if_there("tables/cloud/flow.csv", words = "step"), "srtt_median_ms",
    step == step_levels[["log"]], algorithm == "cubic", loss_percent == 0
  )
}

# Rate in Mbit/s of the logs from which the pauses of the map's study follow (bench.fit_pauses).
pauses_fitted_mbit <- 1000

# CUBIC's goodputs with pauses over those of the replication, where that leaves at least a fifth of
# the link unused, at the rate of the fit or at the others. NA if the campaign has only a few.
pause_factors <- function(fitted, few = 6) {
  rows <- table_if_there("tables/map/pauses.csv")
  if (is.null(rows)) {
    return(NA_real_)
  }
  rows <- rows[rows$algorithm == "cubic" & (rows$rate_mbit == pauses_fitted_mbit) == fitted, ]
  replication <- sqrt(rows$replication_least_mbit * rows$replication_most_mbit)
  unfilled <- which(replication < 0.8 * theoretical_goodput(rows$rate_mbit))
  factors <- (rows$mbit / replication)[unfilled]
  if (sum(!is.na(factors)) < few) NA_real_ else factors[!is.na(factors)]
}

# Factor between two numbers, whichever is larger.
off_by <- function(ratio) pmax(ratio, 1 / ratio)

# Number of findings on the first page so far.
printed <- new.env()
printed$findings <- 0

# Say where the findings are if the first page has none.
without_finding <- function() {
  if (printed$findings == 0) "The chapters have the findings of this campaign." else ""
}

# Show a finding: one sentence and who should care, beside a small figure. "" without the sentence.
finding <- function(picture, sentence, who) {
  if (sentence == "") {
    return("")
  }
  printed$findings <- printed$findings + 1
  words <- paste(c("", picture_words(picture)), collapse = "")
  paste(
    "::: {.finding}", "```{=typst}", "#finding([", "```", "",
    paste0(sentence, " *Who should care:* ", who), "", "```{=typst}", "], [", "```", "",
    sprintf('![](%s){alt="%s" fig-alt="%s"}', picture, words, words), "",
    "```{=typst}", "])", "```", ":::",
    sep = "\n"
  )
}

# State how many sources the campaign repeats, as the end of a sentence.
purpose_text <- function(claims) {
  judged <- claims$evidence == "not fitted" & claims$verdict != "not measured"
  count <- length(unique(claims$study[judged]))
  if (count == 0) {
    return("")
  }
  paste0(", and whether the numbers that ", count_of_sources(count), " published can be reproduced")
}

# State in which chapters the bottleneck is a token bucket instead of an exact link. A row without a
# cell is of cells that the campaign omits.
bucket_text <- function(cells) {
  cells <- cells[!is.na(cells$cell), ]
  shares <- tapply(cells$shaper %in% c("tbf", "htb-netem"), cells$study, mean)
  of_chapters <- function(how_many, chosen) {
    if (any(chosen)) {
      paste(how_many, "of", enumerate(paste0("@sec-", names(shares)[chosen]), length(shares)))
    }
  }
  parts <- c(of_chapters("all cells", shares == 1), of_chapters("some", shares > 0 & shares < 1))
  if (length(parts) == 0) {
    return("")
  }
  paste0(
    capital(paste(parts, collapse = " and ")), " have a token bucket instead (@tbl-cells",
    if ("calibration" %in% cells$study) "; @sec-calibration-bucket", ")."
  )
}

# State what the report does with a sentence that does not hold.
sentences_text <- function(recorded) {
  if (recorded) {
    return("in this one, all of them hold; a false one would have stopped the build.")
  }
  paste(
    "a sentence that does not hold is marked *not shown in this campaign*, and @tbl-untrue",
    "explains it."
  )
}

# Largest number of pages before the appendix, in the PDF of a recorded campaign: the cases of
# drafts take one page, and all other chapters 16.
body_pages <- 17

# End the report's body: its number of pages is limited if the campaign is recorded.
end_of_body <- function(recorded) {
  if (!recorded) {
    return("")
  }
  paste(
    "```{=typst}", "#context {", "  let pages = counter(page).get().first()",
    sprintf("  if pages > %d {", body_pages),
    sprintf('    panic("the body must have at most %d pages, found " + str(pages))', body_pages),
    "  }", "}", "```",
    sep = "\n"
  )
}

joined <- function(parts) paste(parts[parts != ""], collapse = "; ")

# Say how many of a report's measured cells have recorded numbers; "" if all were measured here.
recorded_text <- function(origin, n_cells) {
  rows <- origin[origin$part == "not measured here", ]
  text <- sprintf(
    "%s of %s cells were not measured here: %s", rows$cells, n_cells, escape_markdown(rows$what)
  )
  paste(text, collapse = "; ")
}

# Collect the facts in the box on the first page, named by their labels.
campaign_facts <- function(name, overview, origin, command, renderer) {
  # More than two rows are only counted if there is a word for them.
  part_text <- function(part, word = NULL) {
    rows <- origin[origin$part == part, ]
    if (!is.null(word) && nrow(rows) > 2) {
      return(paste(nrow(rows), word, "(@tbl-origin)"))
    }
    counted <- if (nrow(rows) > 1) paste0(" (", rows$cells, " cells)") else ""
    paste0(escape_markdown(rows$what), counted, collapse = "; ")
  }
  runs <- paste(
    sum(overview$runs), "runs of", paste0(cells_text(overview), ","),
    as_text(from_to(min_present(overview$min_runs), max_present(overview$max_runs))),
    "per cell, of",
    as_text(from_to(min_present(overview$shortest_s), max_present(overview$longest_s))), "s each"
  )
  facts <- c(
    Campaign = paste0(if (name == "") "custom" else paste0("*", name, "*"), ": ", runs),
    Measured = joined(c(part_text("measured on"), part_text("machine"), part_text("time"))),
    Recorded = recorded_text(origin, sum(overview$measured)),
    Code = part_text("losslab", "versions"),
    Kernel = joined(c(
      part_text("kernel"),
      if (part_text("BBR") != "") paste0("BBR: ", part_text("BBR", "versions of tcp_bbr.c"))
    )),
    `Image's packages` = part_text("image's packages", "sets"),
    Rendered = paste("with", renderer), `To repeat` = paste0("`", command, "`")
  )
  facts[facts != ""]
}

show_campaign_box <- function(...) {
  facts <- campaign_facts(...)
  lines <- paste0("**", names(facts), ":** ", facts)
  knitr::asis_output(paste0(paste(lines, collapse = " \\\n"), "\n"))
}
