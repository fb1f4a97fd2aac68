"""Where a replicate runs: `virtual` (a kernel of our own, in virtual time)."""
