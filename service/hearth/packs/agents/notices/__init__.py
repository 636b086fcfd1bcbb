"""Notices for agents that are parents: what waits for them, and its delivery."""
