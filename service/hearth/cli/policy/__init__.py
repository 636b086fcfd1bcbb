"""Verbs about the policy: roles, approvals, audit."""
