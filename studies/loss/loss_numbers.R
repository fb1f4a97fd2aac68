# The source's means, for the scoreboard. Its means on the two paths repeat each other from 1 % loss
# on; without loss, it finds that the paths differ. Its deviations are over seconds. Where the
# algorithm fills our link, the source's hosts limit its numbers: these state one fact.
loss_numbers <- function(published) {
  dplyr::transmute(
    published,
    place = paste("slide", slide), blocks = "long main", app = "iperf3", algorithm, path,
    loss_percent, metric = "goodput_mbit", published = mean, published_sd = std,
    # Our paths differ only in the delay of acknowledgements, so the fit to one is a fit to both.
    apart = ifelse(algorithm == "cubic" & loss_percent == 1, "fitted", NA),
    because = ifelse(is.na(apart), NA, "rtt_ms"),
    fact = ifelse(
      loss_percent == 0 | algorithm == "bbr" & loss_percent <= 5, "what its hosts can send", NA
    ),
    repeats = ifelse(loss_percent >= 1, paste(algorithm, loss_percent), NA)
  )
}
