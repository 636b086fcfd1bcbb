"""The command line as typed, real systemd, real clients."""
