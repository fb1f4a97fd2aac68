"""Command `run`: any test in virtual time, for many seeds."""
