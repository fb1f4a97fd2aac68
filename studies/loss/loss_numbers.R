# The source's means, and the statistics of its samples, for the scoreboard. Its means on the two
# paths repeat each other from 1 % loss on; without loss, it finds that the paths differ. Where the
# algorithm fills our link, the source's hosts limit its numbers: these means state one fact.
loss_numbers <- function(published) {
  numbers <- dplyr::transmute(
    published,
    source = "loss", place = paste("slide", slide), blocks = "long main", app = "iperf3",
    algorithm, path,
    loss_percent, metric = "goodput_mbit", published = mean, published_sd = std,
    # Our paths differ only in the delay of acknowledgements, so the fit to one is a fit to both.
    apart = ifelse(algorithm == "cubic" & loss_percent == 1, "fitted", NA),
    because = ifelse(is.na(apart), NA, "rtt_ms"),
    fact = ifelse(
      loss_percent == 0 | algorithm == "bbr" & loss_percent <= 5, "what its hosts can send", NA
    ),
    repeats = ifelse(loss_percent >= 1, paste(algorithm, loss_percent), NA),
    null = null_mbit(algorithm, loss_percent)
  )
  dplyr::bind_rows(numbers, seconds_numbers(published, numbers))
}

# The statistics of the source's samples, compared with those of our seconds. They are rows of their
# own, not of the study's source: the source does not say what its samples are.
seconds_numbers <- function(published, means) {
  published |>
    dplyr::select(dplyr::any_of(c("std", "min", "q25", "median", "q75", "max"))) |>
    dplyr::bind_cols(
      dplyr::select(means, -source, -published, -published_sd, -fact, -repeats, -null)
    ) |>
    tidyr::pivot_longer(
      dplyr::any_of(c("std", "min", "q25", "median", "q75", "max")), names_to = "statistic",
      values_to = "published", values_drop_na = TRUE
    ) |>
    dplyr::mutate(
      source = "loss, seconds",
      # The fit to CUBIC's mean at 1 % loss is one to the middle of its seconds, but not to their
      # scatter.
      apart = ifelse(statistic %in% c("q25", "median", "q75"), apart, NA),
      because = ifelse(is.na(apart), NA, because)
    )
}

# What needs no congestion control: the link's payload rate, less the loss for BBR. For CUBIC under
# loss, the fitted number at 1 % over the root of the loss.
null_mbit <- function(algorithm, loss_percent) {
  ifelse(
    algorithm == "cubic" & loss_percent > 0,
    235.51 / sqrt(pmax(loss_percent, 1e-9)), theoretical_goodput(1000) * (1 - loss_percent / 100)
  )
}
