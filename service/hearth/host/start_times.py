"""Start time value for platforms that report none; processes are then compared by pid alone."""

UNKNOWN_START_TIME = 0
