"""The applications that make the traffic; one module each, all with the same verbs."""
