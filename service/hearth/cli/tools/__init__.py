"""Verbs about tools."""
