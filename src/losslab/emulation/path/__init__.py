"""Path mechanisms: a module each, with a `FEATURE` (`study/features.py`)."""
