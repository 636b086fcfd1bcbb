"""Linux: systemd, control groups, the journal."""
