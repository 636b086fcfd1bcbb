"""Verbs about MCP servers."""
