"""Command `explorer`: one page with all cells of a campaign and their runs over time."""

from losslab.commands import Command

EXPLORER = Command(
    "losslab_explorer.explorer",
    "make the run explorer of a campaign",
    ("losslab explorer results/summary/loss_cells.csv --out results/report/explorer.html",),
    "inspect runs and campaigns",
)
