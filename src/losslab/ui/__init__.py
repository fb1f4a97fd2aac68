"""User interface: figures of runs, the run explorer, and a campaign's progress."""
