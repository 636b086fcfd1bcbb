"""One command on a fresh machine: `hearth setup` with real clients, real servers and real systemd."""
