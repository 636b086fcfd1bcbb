"""Bridges and daemons under load, killed, stopped and cheated: the harness of the chaos tests."""
