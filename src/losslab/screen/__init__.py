"""What a user looks at: runs as figures, the run explorer, the demo, and a campaign's progress."""
