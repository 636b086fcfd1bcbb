"""Verbs about MCP clients."""
