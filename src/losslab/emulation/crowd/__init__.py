"""Flows beside a cell's own: their plan, the program that makes them, and what became of them."""
