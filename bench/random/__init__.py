"""A campaign of random conditions, each measured in a guest and judged by independent code."""
