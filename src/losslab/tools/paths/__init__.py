"""Commands `path` and `trace`: paths and traces of other tools as conditions, and back."""
