# What limited the first flow of each cell (src/losslab/campaign/limiters.py).

# Share of the time from which the receiver's window is named among the limits, in percent.
noted_rwnd_percent <- 2

# Summarise the limits of each cell: means over valid replicates, in percent; NA if not sampled.
limits_of_cells <- function(replicates) {
  for (column in setdiff(limit_columns, names(replicates))) {
    replicates[[column]] <- NA_real_
  }
  replicates |>
    dplyr::filter(valid) |>
    dplyr::group_by(study, cell) |>
    dplyr::summarise(
      dplyr::across(dplyr::all_of(limit_columns), mean_present), .groups = "drop"
    )
}

limit_columns <- c("cwnd_limited_percent", "pacing_limited_percent", "rwnd_limited_percent")

mean_present <- function(x) if (all(is.na(x))) NA_real_ else mean(x, na.rm = TRUE)

# Name the limit of most of a cell's time, with its share: "cwnd 98 %". The rest is the
# application's in cells whose application has a rate, and timeouts and recovery in others. The
# receiver's window is added if it matters: from a share on, and for any share if pacing limits
# most, because an algorithm may have estimated its rate during that time.
limiter_text <- function(cells) {
  cwnd <- cells$cwnd_limited_percent
  pacing <- cells$pacing_limited_percent
  rest <- pmax(100 - cwnd - pacing, 0)
  name <- ifelse(cells$app == "ffmpeg", "application", "recovery")
  largest <- dplyr::case_when(
    is.na(cwnd) ~ "",
    cwnd >= pacing & cwnd >= rest ~ paste0("cwnd ", fixed(cwnd, 0), " %"),
    pacing >= rest ~ paste0("pacing ", fixed(pacing, 0), " %"),
    TRUE ~ paste0(name, " ", fixed(rest, 0), " %")
  )
  rwnd <- cells$rwnd_limited_percent
  estimated <- startsWith(largest, "pacing") & rwnd >= 0.05
  noted <- !is.na(rwnd) & (rwnd >= noted_rwnd_percent | estimated)
  shown <- ifelse(rwnd < noted_rwnd_percent, fixed(rwnd, 1), fixed(rwnd, 0))
  more <- ifelse(noted, paste0("rwnd ", shown, " %"), "")
  ifelse(largest == "" | more == "", paste0(largest, more), paste0(largest, ", ", more))
}
