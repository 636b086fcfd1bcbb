"""Authorization by the policy: the guard of requests, approvals of leads and people, and hooks of clients."""
