"""Pack a campaign into a verifiable archive; verify it and re-run a sample."""
