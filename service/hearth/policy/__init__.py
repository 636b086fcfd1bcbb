"""Policy: roles, typed permissions, rules and the decision; grants, role tokens, hooks and the audit trail.

Knows neither sessions nor the hub. Loaded with the first policy file: a daemon without one imports nothing of it.
"""
