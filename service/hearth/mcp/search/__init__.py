"""Tool search: the index, and the search tools that stand for all others."""
