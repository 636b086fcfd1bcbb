"""macOS: launchd and libproc."""
