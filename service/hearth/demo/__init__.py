"""Demo of `hearth demo`: a small MCP server, and a run of several agents that share it.

`server` is standard library only, so that it starts in tens of milliseconds.
"""
