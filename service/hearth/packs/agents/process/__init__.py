"""Processes of agents: their start, and the session of each."""
