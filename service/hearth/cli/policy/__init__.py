"""Verbs about roles, decisions and the audit log."""
