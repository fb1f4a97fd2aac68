"""Applications that generate the traffic: a module each, with a `FEATURE` (`emulation/app.py`)."""
