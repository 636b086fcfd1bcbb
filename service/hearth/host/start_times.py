"""The start time that stands for none, where the platform does not tell one; then the pid alone must do."""

UNKNOWN_START_TIME = 0
