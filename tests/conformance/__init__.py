"""Any client on any server: one test body over every revision of MCP and every wire."""
