"""Hearth: one daemon that owns the MCP servers of this user and shares them with every agent."""

__version__ = "0.1.0"
