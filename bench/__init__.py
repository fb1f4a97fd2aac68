"""Campaigns that test losslab itself, each with a command; no measurement uses them."""
