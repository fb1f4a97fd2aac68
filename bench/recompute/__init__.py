"""Recompute a campaign's numbers without R and without the project's analysis."""
