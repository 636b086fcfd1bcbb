"""Policy: roles, permissions, decisions, hooks and the audit log. Knows no sessions."""
