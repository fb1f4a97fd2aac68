# Decisions for operators: two options on one path, and the one that the measurements favour.

# A difference of less than this share is of no importance to users.
unimportant_share <- 0.05

# Compare two options of an axis, such as `c(CUBIC = "cubic", BBR = "bbr")`, on one path.
#
# `...` selects the means of the path in the study's summary; of several blocks with the same cell,
# the one with most runs counts. An option is chosen if its whole confidence interval is better, and
# its mean by more than 5 %. Returns one row, or none if the campaign does not have both.
decision <- function(situation, study, metric_name, options, ..., by = "algorithm",
                     more_is_better = TRUE) {
  rows <- table_if_there(summary_path(study, "statistics"))
  if (is.null(rows)) {
    return(NULL)
  }
  rows <- dplyr::filter(
    rows, statistic_over == "replicates", metric == metric_name, .data[[by]] %in% options, ...
  )
  of_option <- function(value) {
    dplyr::slice_max(rows[rows[[by]] == value, ], n, n = 1, with_ties = FALSE)
  }
  pair <- dplyr::bind_rows(lapply(options, of_option))
  if (nrow(pair) < 2 || anyNA(pair$mean_low)) {
    return(NULL)
  }
  tibble::tibble(
    Situation = situation,
    Compared = paste0(
      names(options), ": ", with_interval(pair$mean, pair$mean_low, pair$mean_high, 3, as = short),
      collapse = "; "
    ),
    Unit = metric_units[[metric_name]],
    Choose = name_of_better(pair, names(options), more_is_better),
    `Measured at` = range_text(pair)
  )
}

# Name the better of two options, or "either".
name_of_better <- function(pair, names, more_is_better) {
  gain <- pair$mean[1] / pair$mean[2]
  apart <- pair$mean_low[1] > pair$mean_high[2] || pair$mean_low[2] > pair$mean_high[1]
  if (!apart || abs(log(gain)) < log(1 + unimportant_share)) {
    return("either")
  }
  paste0("**", if ((gain > 1) == more_is_better) names[1] else names[2], "**")
}

# State the range in which a comparison was measured.
range_text <- function(rows) {
  range_of <- function(column, unit) {
    paste(from_to(min(rows[[column]]), max(rows[[column]])), unit)
  }
  # A trace replaces the rate, and has its own queue.
  no_trace <- all(rows$trace == "none")
  ranges <- c(
    if (no_trace) range_of("rate_mbit", "Mbit/s"),
    range_of("rtt_ms", "ms"),
    if (no_trace) range_of("buffer_packets", "packets"),
    if (all(rows$loss_percent == 0)) "no loss" else range_of("loss_percent", "% loss"),
    paste0("n = ", from_to(min(rows$n), max(rows$n)))
  )
  paste(ranges, collapse = ", ")
}

# Compare the options of an operator in this campaign's studies.
decisions <- function() {
  kernels <- c(CUBIC = "cubic", BBR = "bbr")
  dplyr::bind_rows(
    # The columns, also without any decision.
    tibble::tibble(
      Situation = character(), Compared = character(), Unit = character(), Choose = character(),
      `Measured at` = character()
    ),
    decision(
      "Random loss on a fast, short path", "loss", "goodput_mbit", kernels,
      block == "main", path == "symmetric", app == "iperf3", loss_percent == 1
    ),
    decision(
      "The same with a hundredth of the loss", "loss", "goodput_mbit", kernels,
      block == "small", loss_percent == 0.01
    ),
    decision(
      "No random loss, buffer of one bandwidth-delay product", "cloud", "goodput_mbit", kernels,
      block == "routers", app == "iperf3", competitor == "none", loss_percent == 0
    ),
    decision(
      "No random loss, buffer far below that product", "map", "goodput_mbit", kernels,
      block == "shallow", rtt_ms == 100, rate_mbit == 250, buffer_packets == 66
    ),
    decision(
      "What a CUBIC flow gets beside this one, shallow buffer", "score",
      "competitor_goodput_mbit", kernels,
      block == "beside-cubic", buffer_packets == 17
    ),
    decision(
      "Mean queue in a FIFO of eight bandwidth-delay products", "score", "queue_mean_packets",
      kernels, block == "fifo", buffer_packets == 264,
      more_is_better = FALSE
    ),
    decision(
      "A page beside a CUBIC flow on a slow link: its queue", "bufferbloat", "download_s",
      c(FIFO = "fifo", "FQ-CoDel" = "fq_codel"),
      block %in% c("web", "aqm"), algorithm == "cubic", competitor == "cubic",
      buffer_packets == 100,
      by = "queue", more_is_better = FALSE
    ),
    decision(
      "CUBIC on a cellular link: its queue", "cellular", "power",
      c("unlimited FIFO" = "fifo", CoDel = "codel"),
      block == "kernel", algorithm == "cubic",
      by = "queue"
    )
  )
}

# Studies that repeat a source, none of which states all that its numbers need.
repeated_sources <- c("bufferbloat", "cellular", "cloud", "loss", "map")

# Conclude on the published numbers; "" in a campaign without sources.
published_conclusion <- function(claims, sources) {
  unfitted <- claims$verdict[claims$evidence == "not fitted" & claims$verdict != "not measured"]
  if (length(unfitted) == 0) {
    return("")
  }
  paste0(
    "**Published numbers.** @sec-findings counts those that we find again. A number needs the ",
    "RTT, the buffer, the sender's qdisc and the duration",
    if (all(sources$study %in% repeated_sources)) ", and no source states all of them",
    ". State them with every comparison that you publish, and the scatter of several runs: ",
    sum(unfitted == "undecidable"), " of the ", length(unfitted), " numbers that claims judge are ",
    "of single runs that cannot be compared within the limit."
  )
}

# Conclude on the choice between CUBIC and BBR; "" in a campaign that does not compare them.
algorithms_conclusion <- function(rows) {
  if (!any(startsWith(rows$Compared, "CUBIC"))) {
    return("")
  }
  paste(
    "**Algorithms.** BBR gains where random loss keeps CUBIC's window below the path's",
    "bandwidth-delay product."
  )
}
