"""Pack `agents`: coding agents that the daemon runs and drives over the Agent Client Protocol."""
