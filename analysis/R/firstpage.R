# The report's first page: the answer in three sentences, and the box with the campaign.

# A table of the report where it is there: not every campaign has every study.
table_if_there <- function(path, words = character()) {
  if (file.exists(path)) read_measured(path, words = words)
}

# One row's number; NA where there is no table or no row.
number_if_there <- function(data, column, ...) {
  if (is.null(data)) NA else look_up(data, column, ...)
}

answer_in_words <- function(claims) {
  sentences <- c(answer_of_loss(), answer_of_buffers(), answer_of_claims(claims))
  paste(sentences[sentences != ""], collapse = "\n")
}

# What loss costs.
answer_of_loss <- function(path = "loss.csv") {
  goodput <- table_if_there(path)
  mbit <- function(which, loss) {
    number_if_there(
      goodput, "mean",
      block == "main", algorithm == which, path == "symmetric", loss_percent == loss,
      app == "iperf3", metric == "goodput_mbit", statistic_over == "replicates"
    )
  }
  cubic <- c(mbit("cubic", 0), mbit("cubic", 1))
  bbr <- c(mbit("bbr", 0), mbit("bbr", 1))
  tell(
    cubic[2] < 0.5 * cubic[1] & bbr[2] > 0.9 * bbr[1],
    paste(
      "*Loss*: one percent of random loss takes CUBIC from {short(cubic[1])} to {short(cubic[2])}",
      "Mbit/s on a fast, short path, since it takes every loss for congestion, and BBR, which does",
      "not, from {short(bbr[1])} to {short(bbr[2])} (@sec-loss)."
    ),
    paste(
      "*Loss*: one percent of random loss takes CUBIC from {short(cubic[1])} to {short(cubic[2])}",
      "Mbit/s on a fast, short path, and BBR from {short(bbr[1])} to {short(bbr[2])} (@sec-loss)."
    )
  )
}

# What buffers cost, and what they decide between two algorithms.
answer_of_buffers <- function(path = "bufferbloat_web.csv", gaps = "cloud_gap.csv") {
  web <- table_if_there(path, words = "load")
  gap <- table_if_there(gaps, words = "step")
  page <- function(which, beside) {
    number_if_there(
      web, "mean_download",
      block == "web", algorithm == which, buffer_packets == 100, load == beside
    )
  }
  ratio <- function(at) number_if_there(gap, "ratio", block == at)
  # Alone there is no flow whose algorithm would matter.
  alone <- page("reno", "alone")
  loaded <- page("cubic", "loaded")
  of_page <- tell(
    loaded > alone,
    paste(
      "*Buffers*: behind a CUBIC flow that fills a queue of 100 packets a page takes",
      "{fixed(loaded, 1)} s instead of {fixed(alone, 1)} (@sec-bufferbloat)"
    ),
    "*Buffers*: behind a full queue a page is no slower (@sec-bufferbloat)"
  )
  small <- ratio("published")
  large <- ratio("routers")
  of_gap <- tell(
    large < 1.1 & small > 2,
    paste(
      "of a published gap between BBR and CUBIC that comes out as {fixed(small, 1)} to 1 behind a",
      "small buffer, nothing is left where the buffer holds what fills the path (@sec-cloud)"
    ),
    paste(
      "BBR over CUBIC is {fixed(small, 1)} behind a small buffer and {fixed(large, 1)} where the",
      "buffer holds what fills the path (@sec-cloud)"
    )
  )
  parts <- c(of_page, of_gap)
  parts <- parts[parts != ""]
  if (length(parts) == 0) "" else paste0(capital(paste(parts, collapse = "; ")), ".")
}

# Whether others' numbers are ours: the sentence that every campaign has.
answer_of_claims <- function(claims) {
  paste0(
    "*The same numbers*: of what the sources and formulas behind this report state, ",
    verdicts_in_words(claims), " (@fig-claims), each *differs* with its reason; and the same seed ",
    "gives the same bytes on any machine, so that every number below can be had again by one ",
    "command."
  )
}

joined <- function(parts) paste(parts[parts != ""], collapse = "; ")

# What the box on the first page says, in two columns.
campaign_facts <- function(name, overview, origin, command, renderer) {
  found <- function(part) {
    rows <- origin[origin$part == part, ]
    counted <- if (nrow(rows) > 1) paste0(" (", rows$cells, " cells)") else ""
    paste0(escape_markdown(rows$what), counted, collapse = "; ")
  }
  runs <- paste(
    sum(overview$runs), "runs of", sum(overview$cells), "cells,",
    said(from_to(least(overview$least_runs), most(overview$most_runs))), "per cell, of",
    said(from_to(least(overview$least_s), most(overview$most_s))), "s each"
  )
  facts <- c(
    Campaign = paste0(if (name == "") "one of its own" else paste0("*", name, "*"), ": ", runs),
    Measured = joined(c(found("measured on"), found("machine"), found("time"))),
    Code = found("losslab"),
    Kernel = joined(c(found("kernel"), paste0("BBR: ", found("BBR"))[found("BBR") != ""])),
    Image = sub("^(.)", "packages \\1", found("image's packages")),
    Rendered = paste("with", renderer), Again = paste0("`", command, "`")
  )
  facts[facts != ""]
}

show_campaign_box <- function(...) {
  facts <- campaign_facts(...)
  lines <- paste0("**", names(facts), ":** ", facts)
  knitr::asis_output(paste0(paste(lines, collapse = " \\\n"), "\n"))
}
