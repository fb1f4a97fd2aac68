# First page of the report: the main results, and the box that describes the campaign.

# Read a table of the report, or return NULL: not every campaign has every study.
table_if_there <- function(path, words = character()) {
  if (file.exists(path)) read_measured(path, words = words)
}

# Look up one row's number; NA without a table or row.
number_if_there <- function(data, column, ...) {
  if (is.null(data)) NA else look_up(data, column, ...)
}

main_results <- function(claims) {
  sentences <- c(result_on_loss(), result_on_buffers(), result_on_claims(claims))
  paste(sentences[sentences != ""], collapse = "\n")
}

# State the effect of random loss.
result_on_loss <- function(path = "loss.csv") {
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
  say(
    cubic[2] < 0.5 * cubic[1] & bbr[2] > 0.9 * bbr[1],
    paste(
      "*Loss*: on a fast, short path, one percent of random loss reduces CUBIC's goodput from",
      "{short(cubic[1])} to {short(cubic[2])} Mbit/s, because it treats every loss as congestion.",
      "BBR does not; its goodput goes from {short(bbr[1])} to {short(bbr[2])} Mbit/s (@sec-loss)."
    ),
    paste(
      "*Loss*: on a fast, short path, one percent of random loss changes CUBIC's goodput from",
      "{short(cubic[1])} to {short(cubic[2])} Mbit/s, and BBR's from {short(bbr[1])} to",
      "{short(bbr[2])} Mbit/s (@sec-loss)."
    )
  )
}

# State the effect of buffers on a page, and on the ratio of BBR to CUBIC.
result_on_buffers <- function(path = "bufferbloat_web.csv", gaps = "cloud_gap.csv") {
  web <- table_if_there(path, words = "load")
  gap <- table_if_there(gaps, words = "step")
  page <- function(which, beside) {
    number_if_there(
      web, "mean_download",
      block == "web", algorithm == which, buffer_packets == 100, load == beside
    )
  }
  ratio <- function(at) number_if_there(gap, "ratio", block == at)
  # Without a second flow, the algorithm makes no difference.
  alone <- page("reno", "alone")
  loaded <- page("cubic", "loaded")
  of_page <- say(
    loaded > alone,
    paste(
      "*Buffers*: beside a CUBIC flow that fills a queue of 100 packets, a page takes",
      "{fixed(loaded, 1)} s instead of {fixed(alone, 1)} s (@sec-bufferbloat)."
    ),
    "*Buffers*: a full queue does not slow a page down (@sec-bufferbloat)."
  )
  small <- ratio("published")
  large <- ratio("routers")
  of_gap <- say(
    large < 1.1 & small > 2,
    paste(
      "A published gap between BBR and CUBIC is {fixed(small, 1)} to 1 with a small buffer; it",
      "disappears with a buffer of one bandwidth-delay product (@sec-cloud)."
    ),
    paste(
      "The ratio of BBR to CUBIC is {fixed(small, 1)} with a small buffer and {fixed(large, 1)}",
      "with a buffer of one bandwidth-delay product (@sec-cloud)."
    )
  )
  parts <- c(of_page, of_gap)
  paste(parts[parts != ""], collapse = " ")
}

# State how many claims are reproduced. Every campaign has this sentence.
result_on_claims <- function(claims) {
  paste0(
    "*Reproduction*: ", count_verdicts_text(claims), " (@tbl-verdicts). Numbers to which the ",
    "set-up was fitted or configured are not counted. Each verdict *not reproduced* has a reason. ",
    "The same seed gives the same bytes on any machine, so one command reproduces every number of ",
    "this report."
  )
}

joined <- function(parts) paste(parts[parts != ""], collapse = "; ")

# Collect the facts in the box on the first page, named by their labels.
campaign_facts <- function(name, overview, origin, command, renderer) {
  found <- function(part) {
    rows <- origin[origin$part == part, ]
    counted <- if (nrow(rows) > 1) paste0(" (", rows$cells, " cells)") else ""
    paste0(escape_markdown(rows$what), counted, collapse = "; ")
  }
  runs <- paste(
    sum(overview$runs), "runs of", sum(overview$cells), "cells,",
    as_text(from_to(min_present(overview$min_runs), max_present(overview$max_runs))),
    "per cell, of",
    as_text(from_to(min_present(overview$shortest_s), max_present(overview$longest_s))), "s each"
  )
  facts <- c(
    Campaign = paste0(if (name == "") "custom" else paste0("*", name, "*"), ": ", runs),
    Measured = joined(c(found("measured on"), found("machine"), found("time"))),
    Code = found("losslab"),
    Kernel = joined(c(found("kernel"), paste0("BBR: ", found("BBR"))[found("BBR") != ""])),
    Image = sub("^(.)", "packages \\1", found("image's packages")),
    Rendered = paste("with", renderer), `To repeat` = paste0("`", command, "`")
  )
  facts[facts != ""]
}

show_campaign_box <- function(...) {
  facts <- campaign_facts(...)
  lines <- paste0("**", names(facts), ":** ", facts)
  knitr::asis_output(paste0(paste(lines, collapse = " \\\n"), "\n"))
}
