# The published rows with ours beside them, every condition's winner, and the tree that predicts it.
tables <- function(data, write) {
  measured <- gains(data$replicates)
  # The paper's two conditions are there to be compared; the grid has others of their kind.
  conditions <- filter(measured, block != "paper")
  published <- data$published

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
      sign = case_when(
        is.na(ratio) ~ "not measured",
        winner == "undecided" ~ "undecided",
        (ratio > 1) == (published_ratio > 1) ~ "agrees",
        TRUE ~ "differs"
      )
    ) |>
    write("published")

  published |>
    filter(source != "kim") |>
    bind_rows(measured |> filter(block == "paper") |> mutate(source = "ours")) |>
    mutate(ratio = coalesce(ratio, bbr_mbit / cubic_mbit)) |>
    arrange(buffer_packets, source == "ours", source) |>
    select(
      source, rtt_ms, rate_mbit, buffer_packets, cubic_mbit, bbr_mbit, ratio, low, high
    ) |>
    write("paper")

  factorial <- filter(conditions, block == "published")
  factorial |> arrange(desc(ratio)) |> write("factorial")
  factorial_effects(factorial) |> write("effects")
  conditions |> filter(block != "published") |> write("grid")

  # The tree learns from all conditions together.
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
    # A tree of one leaf leans on nothing.
    feature = as.character(names(importance)),
    share_percent = 100 * as.numeric(importance) / sum(as.numeric(importance))
  ) |>
    write("importance")
  tibble::tibble(
    conditions = nrow(known),
    accuracy_percent = 100 * mean(predicted == known$winner),
    # Of conditions with a winner: how often the tree, grown without it, names the other algorithm.
    wrong_winner_percent = 100 * mean(
      (predicted != known$winner & predicted != "undecided")[known$winner != "undecided"]
    ),
    # What always naming the most frequent class would get.
    baseline_percent = if (nrow(known) == 0) NA else 100 * max(table(known$winner)) / nrow(known),
    leaves = leaves
  ) |>
    write("accuracy")
}
