"""Degraded daemon: one that cannot serve and answers every request with the reason."""
