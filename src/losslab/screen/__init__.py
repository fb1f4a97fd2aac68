"""What a user looks at: runs as figures, the run explorer, and a campaign's progress."""
