"""Commands `artifact` and `verify`: pack a campaign for others, and verify results."""
