"""Supervised connections to MCP servers: their processes, handshakes and catalogs."""
