"""Policy: roles, permissions, decisions, hook formats and the audit trail. Knows no sessions, no hub, no daemon."""
