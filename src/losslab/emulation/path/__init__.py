"""Mechanisms of the path, each a module with a `FEATURE` (`study/features.py`)."""
