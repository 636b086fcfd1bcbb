"""Supervised connections to MCP servers: their processes, their handshake, what they offer."""
