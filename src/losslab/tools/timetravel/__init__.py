"""Commands `whatif`, `why` and `export`: a recorded run's other futures, causes and packets."""
