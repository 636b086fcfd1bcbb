"""Permission requests of agents: the uses of tools in them, decisions, and responses."""
