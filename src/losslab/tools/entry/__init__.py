"""The table of algorithms: an algorithm of a pull request, and the page of all."""
