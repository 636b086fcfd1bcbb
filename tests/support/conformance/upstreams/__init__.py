"""A server that speaks exactly one revision of MCP. Standard library only: it runs with `python -I -S`."""
