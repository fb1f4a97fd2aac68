"""Command `evidence`: a page with a stable address for each claim, test case and cell."""
