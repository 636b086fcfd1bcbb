"""Tool search: the index, and the tools that stand for all others."""
