"""Demo of `hearth demo`: a small MCP server, and a run of several agents that share it.

The server's half (`protocol`, `server`) is standard library only, so that it starts in tens of
milliseconds.
"""
