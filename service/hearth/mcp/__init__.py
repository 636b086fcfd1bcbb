"""Rules of MCP, without any I/O: revisions, catalogs, translation, questions, suspended calls, search.

Nothing here imports asyncio, socket, os or logging.
"""
