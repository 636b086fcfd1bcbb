"""Verbs about the policy, roles, approvals and the audit log."""
