"""Rules of MCP, without any I/O: eras, names, probing, translation.

Nothing here imports asyncio, socket, os or logging.
"""
