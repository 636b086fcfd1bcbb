"""Bytes to messages and back, without any I/O. Nothing here imports asyncio, socket, os or logging."""
