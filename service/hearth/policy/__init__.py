"""Policy: roles, permissions and the decision, grants, role tokens, audit. Knows no sessions; loaded with a policy file."""
