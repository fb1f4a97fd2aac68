"""Background flows: their plan, the programs that send and receive them, and their metrics."""
