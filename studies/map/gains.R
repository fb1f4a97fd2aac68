# Gain of BBR over CUBIC by condition, its confidence interval, and the tree and effects that
# explain it.

# Block that measures the seconds of a flow's start. Its runs are not used for gains.
start_block <- "shallow-start"
# The rows of the source that its LAN of 100 Mbit/s limited.
lan_block <- "lan"
# The source's conditions with a token bucket.
bucket_block <- "published-bucket"
# Hosts without fq; the same over an exact link; over an exact link that pauses.
unpaced_block <- "shallow-unpaced"
link_block <- "shallow-link"
paused_block <- "shallow-paused"
# Blocks that measure a condition of the map with other hosts or another network.
other_blocks <- c(lan_block, bucket_block, unpaced_block, link_block, paused_block)

winner_levels <- c("BBR", "CUBIC", "either")
winner_colours <- c(BBR = "#D55E00", CUBIC = "#0072B2", either = "#999999")

gain_axes <- c("block", "rtt_ms", "rate_mbit", "buffer_packets", "loss_percent", "duration_s")

# Compute the ratio of the geometric means of two samples with its confidence interval: Welch's t on
# logarithms, because the cells of a condition may have different numbers of runs. `error` is the
# logarithm's standard error and `df` its degrees of freedom; both are NA if there are too few runs
# for an interval.
ratio_of_means <- function(over, under, level = interval_level) {
  estimate <- ratio_interval(over, under, paired = FALSE, level)
  shares <- c(stats::var(log(over)) / length(over), stats::var(log(under)) / length(under))
  known <- !is.na(estimate$low)
  error <- if (known) sqrt(sum(shares)) else NA_real_
  # Two samples without variance have no degrees of freedom.
  df <- if (!known) {
    NA_real_
  } else if (error == 0) {
    Inf
  } else {
    sum(shares)^2 / sum(shares^2 / (c(length(over), length(under)) - 1))
  }
  tibble::tibble(
    ratio = estimate$value, low = as.numeric(estimate$low), high = as.numeric(estimate$high),
    error = error, df = df, n_over = length(over), n_under = length(under)
  )
}

# Name the winner: "either" if the interval includes 1 or is missing, or the gain is unimportant.
winner <- function(ratio, low, high) {
  important <- 1 + unimportant_share
  factor(
    dplyr::case_when(
      low > 1 & ratio > important ~ "BBR", high < 1 & ratio < 1 / important ~ "CUBIC",
      TRUE ~ "either"
    ),
    winner_levels
  )
}

# Summarise each condition of a block that was measured with both algorithms, longer runs first.
gains <- function(replicates) {
  summaries <- replicates |>
    with_columns("retransmits") |>
    dplyr::filter(
      valid, goodput_mbit > 0, algorithm %in% c("cubic", "bbr"), block != start_block
    ) |>
    dplyr::group_by(dplyr::across(dplyr::all_of(gain_axes))) |>
    dplyr::filter(dplyr::n_distinct(algorithm) == 2) |>
    dplyr::summarise(
      ratio_of_means(
        goodput_mbit[algorithm == "bbr"], goodput_mbit[algorithm == "cubic"],
        level_of(max(error_share))
      ),
      bbr_mbit = mean(goodput_mbit[algorithm == "bbr"]),
      cubic_mbit = mean(goodput_mbit[algorithm == "cubic"]),
      bbr_retransmits = mean(retransmits[algorithm == "bbr"]),
      cubic_retransmits = mean(retransmits[algorithm == "cubic"]),
      error_share = min(error_share), .groups = "drop"
    )
  summaries |>
    with_columns(c("ratio", "low", "high", "error", "df", "n_over", "n_under", "error_share")) |>
    dplyr::mutate(winner = winner(ratio, low, high)) |>
    with_columns(c("bbr_mbit", "cubic_mbit", "bbr_retransmits", "cubic_retransmits")) |>
    dplyr::relocate(
      bbr_mbit, cubic_mbit, bbr_retransmits, cubic_retransmits, winner,
      .after = dplyr::last_col()
    ) |>
    dplyr::arrange(dplyr::desc(duration_s)) |>
    dplyr::select(-"duration_s")
}

# Return the conditions of the map from gains(). A condition in two blocks counts once, with the
# longer runs, and with fq as in all other studies except for the source's own block.
of_map_itself <- function(measured) {
  measured |>
    dplyr::filter(!block %in% other_blocks) |>
    dplyr::distinct(rtt_ms, rate_mbit, buffer_packets, loss_percent, .keep_all = TRUE)
}

# Compute the features of a condition for the tree.
features <- function(conditions) {
  dplyr::transmute(
    conditions,
    winner,
    `RTT ms` = rtt_ms,
    `rate Mbit/s` = rate_mbit,
    `buffer KB` = buffer_packets * frame_bytes / 1e3,
    `loss %` = loss_percent,
    `buffer/BDP` = buffer_packets / bdp_packets(rate_mbit, rtt_ms)
  )
}

# Minimum number of conditions to split a node.
least_node <- 8

# Grow a classification tree (Breiman et al. 1984, as in rpart), pruned to the size with the lowest
# cross-validated error. The folds are drawn with a fixed seed.
grow_tree <- function(data) {
  set.seed(1, kind = "Mersenne-Twister", sample.kind = "Rejection")
  control <- rpart::rpart.control(minsplit = least_node, minbucket = 3, cp = 0.001, xval = 10)
  tree <- rpart::rpart(winner ~ ., data = data, method = "class", control = control)
  errors <- tree$cptable[, "xerror", drop = TRUE]
  if (length(errors) < 2) {
    return(tree)
  }
  rpart::prune(tree, cp = tree$cptable[which.min(errors), "CP"])
}

# Test whether there are enough conditions and classes to grow a tree.
can_learn <- function(data) nrow(data) > least_node && has_classes(data)

has_classes <- function(data) length(unique(data$winner)) > 1

# Predict each condition with a tree that was grown without it (leave-one-out).
left_out <- function(data) {
  vapply(seq_len(nrow(data)), function(i) {
    others <- data[-i, ]
    if (!has_classes(others)) {
      return(as.character(others$winner[1]))
    }
    tree <- grow_tree(others)
    as.character(stats::predict(tree, data[i, ], type = "class"))
  }, "")
}

no_nodes <- tibble::tibble(
  number = integer(), leaf = logical(), depth = numeric(), parent = numeric(), n = numeric(),
  winner = factor(character(), winner_levels), right = numeric(), x = numeric(),
  answer = character()
)

# Place the nodes of a tree in a drawing: leaves side by side, the root on top.
tree_layout <- function(tree) {
  frame <- tree$frame
  number <- as.integer(rownames(frame))
  leaf <- frame$var == "<leaf>"
  levels <- attr(tree, "ylevels")
  nodes <- tibble::tibble(
    number, leaf,
    depth = floor(log2(number)), parent = number %/% 2,
    n = frame$n, winner = factor(levels[frame$yval], winner_levels),
    right = frame$n - frame$dev
  )
  # rpart lists leaves from left to right.
  nodes$x <- NA_real_
  nodes$x[leaf] <- seq_len(sum(leaf))
  for (i in rev(order(nodes$depth))) {
    if (!nodes$leaf[i]) nodes$x[i] <- mean(nodes$x[nodes$parent == nodes$number[i]])
  }
  questions <- labels(tree, minlength = 0)
  nodes$answer <- readable_split(questions)
  nodes
}

# Format "loss %>=0.05" as "loss % >= 0.05", with three digits.
readable_split <- function(text) {
  parts <- regmatches(text, regexec("^(.*?)(>=|<)\\s*(.*)$", text))
  vapply(parts, function(part) {
    if (length(part) < 4) return("")
    relation <- if (part[3] == ">=") "\u2265" else "<"
    paste(part[2], relation, formatC(as.numeric(part[4]), format = "fg", digits = 3))
  }, "")
}

# Turn the leaves of a tree into rules: the splits on the path, the prediction, and how often it is
# correct.
tree_rules <- function(tree) {
  nodes <- tree_layout(tree)
  way <- function(number) {
    splits <- character()
    while (number > 1) {
      splits <- c(nodes$answer[nodes$number == number], splits)
      number <- number %/% 2
    }
    if (length(splits) == 0) "always" else paste(splits, collapse = " and ")
  }
  leaves <- dplyr::filter(nodes, leaf)
  tibble::tibble(
    rule = vapply(leaves$number, way, ""), choose = leaves$winner, conditions = leaves$n,
    right = leaves$right
  )
}

no_effects <- tibble::tibble(
  effect = character(), kind = character(), log_factor = numeric(), error = numeric(),
  df = numeric(), pairs = numeric()
)

# Compute the effects of a two-level factorial (Box, Hunter, Hunter 1978): the factor by which the
# gain changes if a factor, or the product of two, goes from low to high, averaged over the others.
# If conditions are missing, a main effect is that of the pairs that differ only in this factor, and
# there are no products.
factorial_effects <- function(conditions) {
  factors <- c(
    RTT = "rtt_ms", rate = "rate_mbit", buffer = "buffer_packets", loss = "loss_percent"
  )
  conditions$log_gain <- log(conditions$ratio)
  level <- level_of(min(1, conditions$error_share))
  main <- if (nrow(conditions) > 0) {
    lapply(names(factors), function(name) main_effect(conditions, factors, name))
  }
  whole <- nrow(dplyr::distinct(conditions[factors])) == 2^length(factors)
  products <- if (whole) {
    lapply(utils::combn(names(factors), 2, simplify = FALSE), function(pair) {
      product_effect(conditions, factors, pair)
    })
  }
  dplyr::bind_rows(no_effects, main, products) |>
    dplyr::filter(pairs > 0) |>
    dplyr::mutate(
      reach = ifelse(error == 0, 0, stats::qt((1 + level) / 2, df) * error),
      factor = exp(log_factor), low = exp(log_factor - reach), high = exp(log_factor + reach),
      reach = NULL
    ) |>
    dplyr::arrange(dplyr::desc(abs(log_factor)))
}

main_effect <- function(conditions, factors, name) {
  axis <- factors[[name]]
  other_axes <- unname(setdiff(factors, axis))
  wanted <- dplyr::select(
    conditions, dplyr::all_of(c(other_axes, axis)), log_gain, error, df
  )
  low <- wanted[wanted[[axis]] == min(wanted[[axis]]), ]
  high <- wanted[wanted[[axis]] == max(wanted[[axis]]), ]
  pairs <- if (min(conditions[[axis]]) == max(conditions[[axis]])) {
    wanted[0, ]
  } else {
    dplyr::inner_join(high, low, by = other_axes, suffix = c("_high", "_low"))
  }
  if (nrow(pairs) == 0) {
    return(no_effects)
  }
  effect_of(
    name, "main", mean(pairs$log_gain_high - pairs$log_gain_low),
    c(pairs$error_high, pairs$error_low), c(pairs$df_high, pairs$df_low), nrow(pairs)
  )
}

product_effect <- function(conditions, factors, pair) {
  signs <- lapply(conditions[factors[pair]], function(x) ifelse(x == max(x), 1, -1))
  half <- nrow(conditions) / 2
  effect_of(
    paste(pair, collapse = " \u00d7 "), "interaction",
    sum(signs[[1]] * signs[[2]] * conditions$log_gain) / half,
    conditions$error, conditions$df, half
  )
}

# Average `pairs` differences with these errors; degrees of freedom after Welch and Satterthwaite.
effect_of <- function(name, kind, log_factor, errors, df, pairs) {
  tibble::tibble(
    effect = name, kind = kind, log_factor = log_factor, error = sqrt(sum(errors^2)) / pairs,
    df = sum(errors^2)^2 / sum(errors^4 / df), pairs = pairs
  )
}

# Format a buffer in bytes: "100 KB".
short_bytes <- function(buffer_packets) {
  size <- signif(buffer_packets * frame_bytes / 1e3, 1)
  ifelse(size < 1000, paste(size, "KB"), paste(size / 1000, "MB"))
}

label_bytes <- function(buffer_packets) {
  size <- signif(buffer_packets * frame_bytes / 1e6, 1)
  paste(ifelse(size < 1, formatC(size, format = "fg"), formatC(size, format = "d")), "MB buffer")
}
