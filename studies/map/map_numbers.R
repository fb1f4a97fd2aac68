# The numbers of the source, of the paper that it follows and of that paper's replication, for the
# scoreboard. The replication's two kernels repeat each other. It did not pace CUBIC. The rate of
# the LAN follows from BBR's number in row 3.
map_numbers <- function(published) {
  condition <- c("rtt_ms", "buffer_packets", "loss_percent", "rate_mbit")
  # The log of the source has no condition, and some rows of the replication are of seconds.
  of_condition <- dplyr::filter(published, is.na(from_s))
  by_algorithm <- of_condition |>
    dplyr::select(-goodput_mbit) |>
    dplyr::rename(bbr_goodput_mbit = bbr_mbit, cubic_goodput_mbit = cubic_mbit) |>
    tidyr::pivot_longer(
      c(bbr_goodput_mbit, cubic_goodput_mbit, bbr_retransmits, cubic_retransmits),
      names_to = c("algorithm", "metric"), names_pattern = "([a-z]+)_(.+)",
      values_to = "published", values_drop_na = TRUE
    ) |>
    dplyr::mutate(
      blocks = dplyr::case_when(
        source == "kim" & row %in% c(3, 8) ~ lan_block, source == "kim" ~ "published",
        algorithm == "cubic" ~ "shallow-unpaced paper imc",
        TRUE ~ "shallow paper imc"
      )
    )
  by_algorithm$rate_mbit[by_algorithm$blocks == lan_block] <- 100
  gains <- of_condition |>
    dplyr::filter(!is.na(gain_percent)) |>
    dplyr::mutate(
      algorithm = "bbr", over = "cubic", metric = "goodput_mbit", blocks = "shallow paper imc",
      published = 1 + gain_percent / 100, null = 1
    )
  of_seconds <- published |>
    dplyr::filter(startsWith(source, "datta2023"), !is.na(from_s)) |>
    tidyr::pivot_longer(
      c(goodput_mbit, retransmits_first_second),
      names_to = "metric", values_to = "published", values_drop_na = TRUE
    ) |>
    dplyr::mutate(algorithm = "cubic", sender_queue = "fq_codel", blocks = start_block)
  dplyr::bind_rows(by_algorithm, gains, of_seconds) |>
    dplyr::mutate(
      place = dplyr::case_when(
        !is.na(row) ~ paste("row", row),
        startsWith(source, "datta2023") ~ sub(".*\\((.*)\\)", "\\1", source),
        !is.na(over) ~ "gain",
        TRUE ~ "text"
      ),
      repeats = ifelse(
        startsWith(source, "datta2023"),
        paste(algorithm, rtt_ms, buffer_packets, rate_mbit, from_s), NA
      ),
      published_runs = dplyr::case_when(
        source == "kim" ~ 1, startsWith(source, "datta2023") ~ 5, TRUE ~ NA_real_
      ),
      apart = ifelse(row %in% 3 & algorithm == "bbr", "configured", NA),
      because = ifelse(is.na(apart), NA, "rate_mbit"),
      source = dplyr::recode(
        sub(" \\(.*", "", source),
        kim = "map", cao2019 = "Cao et al. 2019", datta2023 = "Datta and Fund 2023"
      ),
      family = paste(metric, blocks == start_block),
      # Without a model of congestion control: no gain, or the link's rate.
      null = ifelse(
        is.na(null) & metric == "goodput_mbit" & is.na(sender_queue),
        theoretical_goodput(rate_mbit), null
      )
    ) |>
    dplyr::select(
      source, place, blocks, algorithm, dplyr::all_of(condition), sender_queue, metric, over,
      published, published_runs, apart, because, repeats, family, null
    )
}
