# Published and measured rows, every condition's winner, and the tree that predicts it.
tables <- function(data, write) {
  measured <- gains(data$replicates)
  published <- data$published
  conditions <- of_map_itself(measured)

  published |>
    filter(source == "kim") |>
    left_join(
      conditions |>
        filter(block == "published") |>
        select(
          rtt_ms, rate_mbit, buffer_packets, loss_percent, measured_bbr_mbit = bbr_mbit,
          measured_cubic_mbit = cubic_mbit, ratio, low, high, winner
        ),
      by = c("rtt_ms", "rate_mbit", "buffer_packets", "loss_percent")
    ) |>
    mutate(
      published_ratio = bbr_mbit / cubic_mbit,
      formula_mbit = mathis_mbit(loss_percent / 100, rtt_ms / 1e3),
      sign = case_when(
        is.na(ratio) ~ "not measured",
        winner == "either" ~ "either",
        (ratio > 1) == (published_ratio > 1) ~ "agrees",
        TRUE ~ "disagrees"
      )
    ) |>
    write("published")

  # Conditions of the paper and its replication that were measured here, without random loss.
  compared <- without_loss(measured)
  of_both <- of_testbeds(published)
  measured_here <- of_both |>
    semi_join(compared, by = c("rtt_ms", "rate_mbit", "buffer_packets"))
  bind_rows(
    measured_here,
    compared |>
      semi_join(measured_here, by = c("rtt_ms", "rate_mbit", "buffer_packets")) |>
      mutate(source = "ours")
  ) |>
    arrange(buffer_packets, rtt_ms, rate_mbit, source == "ours", source) |>
    select(
      source, rtt_ms, rate_mbit, buffer_packets, cubic_mbit, bbr_mbit, ratio, low, high,
      cubic_retransmits, bbr_retransmits
    ) |>
    write("paper")

  pacing_rows(data$replicates, published) |> write("pacing")
  pause_rows(data$replicates, published) |> write("pauses")

  testbed_pairs(of_both, compared) |> write("testbeds")

  data$replicates |>
    filter(block %in% c("published", bucket_block)) |>
    shaper_ratios("goodput_mbit") |>
    select(
      algorithm, rtt_ms, rate_mbit, buffer_packets, loss_percent, n, with_bucket, with_link, ratio,
      low, high
    ) |>
    arrange(rate_mbit, rtt_ms, loss_percent, desc(algorithm)) |>
    write("bucket")

  factorial <- filter(conditions, block == "published")
  factorial |> arrange(desc(ratio)) |> write("factorial")
  factorial_effects(factorial) |> write("effects")
  conditions |> filter(block != "published") |> write("grid")

  # Train the tree on all conditions.
  known <- features(conditions)
  if (can_learn(known)) {
    tree <- grow_tree(known)
    rules <- tree_rules(tree)
    predicted <- factor(left_out(known), winner_levels)
    leaves <- nrow(rules)
    importance <- tree$variable.importance
  } else {
    rules <- tibble::tibble(
      rule = character(), choose = character(), conditions = numeric(), right = numeric()
    )
    predicted <- factor(rep(NA, nrow(known)), winner_levels)
    leaves <- NA_real_
    importance <- NULL
  }
  write(rules, "rules")
  as.data.frame(table(measured = known$winner, predicted = predicted)) |>
    rename(conditions = Freq) |>
    write("confusion")
  tibble::tibble(
    # A tree with a single leaf has no feature importance.
    feature = as.character(names(importance)),
    share_percent = 100 * as.numeric(importance) / sum(as.numeric(importance))
  ) |>
    write("importance")
  tibble::tibble(
    conditions = nrow(known),
    accuracy_percent = 100 * mean(predicted == known$winner),
    # Share of conditions with a winner for which the cross-validated tree predicts the other
    # algorithm.
    wrong_winner_percent = 100 * mean(
      (predicted != known$winner & predicted != "either")[known$winner != "either"]
    ),
    # Baseline: always predict the most frequent class.
    baseline_percent = if (nrow(known) == 0) NA else 100 * max(table(known$winner)) / nrow(known),
    leaves = leaves
  ) |>
    write("accuracy")
}
