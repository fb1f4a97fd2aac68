"""Command `explorer`: one page with all cells of a campaign and their runs over time."""
