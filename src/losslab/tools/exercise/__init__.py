"""Command `exercise`: exercises for a class, and their grading by bytes."""
