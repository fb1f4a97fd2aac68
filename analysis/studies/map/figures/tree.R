# The classification tree: which algorithm to choose, with the conditions in each node.
for (path in unlist(snakemake@input[["functions"]])) source(path)
begin_script(snakemake)
library(ggplot2)
library(dplyr, warn.conflicts = FALSE)

data <- gains(read_replicates(snakemake@input[["replicates"]])) |>
  filter(block != "paper") |>
  features()
nodes <- if (can_learn(data)) tree_layout(grow_tree(data)) else no_nodes
edges <- nodes |>
  filter(number > 1) |>
  inner_join(
    select(nodes, parent = number, from_x = x, from_depth = depth),
    by = "parent"
  )
# Deep trees have narrow leaves; the text shrinks with them.
size <- max(1.9, min(3, 26 / sum(nodes$leaf)))

figure <- ggplot(nodes, aes(x, -depth)) +
  geom_segment(
    aes(x = from_x, xend = x, y = -from_depth, yend = -depth),
    data = edges, colour = "grey70", linewidth = 0.5
  ) +
  geom_label(
    # Nearer to the child, where the two labels of a node are further apart.
    aes(x = 0.3 * from_x + 0.7 * x, y = -(0.3 * from_depth + 0.7 * depth), label = answer),
    data = edges, size = size, label.size = 0, label.padding = grid::unit(0.1, "lines")
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
missing <- missing_cells(read_cells(snakemake@input[["cells"]]), block != "paper")
height_cm <- 3 + 2.2 * max(1, nodes$depth)
save_figure(figure, unlist(snakemake@output), height_cm, missing)
