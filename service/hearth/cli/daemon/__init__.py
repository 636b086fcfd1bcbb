"""Verbs about the daemon."""
