"""Campaigns that try losslab itself; each a command, none part of a measurement."""
