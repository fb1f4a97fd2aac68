"""Commands that the core does not need, a package each. None imports another."""
