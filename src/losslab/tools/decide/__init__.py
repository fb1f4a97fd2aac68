"""Command `decide`: which congestion control to use on a path, and at whose cost."""
