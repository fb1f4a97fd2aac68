"""Commands of runs and cells, one module each."""
