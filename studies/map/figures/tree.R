# The classification tree: which algorithm to choose, with the conditions in each node.
# Deep trees need tall sheets.
height_cm <- function(data) 3 + 2.2 * max(1, tree_nodes(data)$depth)
shown <- function(cells) filter(cells, !block %in% other_blocks)

tree_nodes <- function(data) {
  conditions <- features(of_map_itself(gains(data$replicates)))
  nodes <- if (can_learn(conditions)) tree_layout(grow_tree(conditions)) else no_nodes
  # A tree without a split is a sentence, not a figure.
  if (nrow(nodes) > 1) nodes else no_nodes
}

draw <- function(data) {
  nodes <- tree_nodes(data)
  edges <- nodes |>
    filter(number > 1) |>
    inner_join(
      select(nodes, parent = number, from_x = x, from_depth = depth),
      by = "parent"
    )
  # Deep trees have narrow leaves, so the text is smaller.
  size <- max(1.9, min(3, 26 / sum(nodes$leaf)))

  ggplot(nodes, aes(x, -depth)) +
    geom_segment(
      aes(x = from_x, xend = x, y = -from_depth, yend = -depth),
      data = edges, colour = "grey70", linewidth = 0.5
    ) +
    geom_label(
      # Above the child, where a node's two labels are furthest apart; two short lines, because
      # leaves are narrow.
      aes(
        y = -(0.36 * from_depth + 0.64 * depth), label = sub(" (<|\u2265) ", "\n\\1 ", answer),
        # Beside the edge.
        hjust = ifelse(x < from_x, 0.85, 0.15)
      ),
      data = edges, size = size, label.size = 0, label.padding = grid::unit(0.1, "lines"),
      lineheight = 0.9
    ) +
    geom_label(
      aes(label = paste0(winner, "\n", right, " of ", n), fill = winner),
      colour = "white", fontface = "bold", size = size, label.padding = grid::unit(0.3, "lines")
    ) +
    scale_fill_manual(values = winner_colours, drop = FALSE, guide = "none") +
    scale_x_continuous(expand = expansion(add = 0.6)) +
    scale_y_continuous(expand = expansion(add = 0.35)) +
    theme_void(base_family = "DejaVu Sans") +
    theme(plot.margin = margin(2, 2, 2, 2))
}
