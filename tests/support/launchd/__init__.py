"""Stand-ins for what only macOS has: launchd cannot run here. They show that it is asked rightly, no more."""
