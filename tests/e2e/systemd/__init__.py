"""The harness of the tests on real systemd: booting one, a user's seat in it, and an MCP client."""
