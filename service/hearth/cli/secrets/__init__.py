"""Verbs about secrets, tokens and logins."""
