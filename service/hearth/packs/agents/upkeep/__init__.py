"""Upkeep of the record of agents: after a restart of the daemon, and on request."""
