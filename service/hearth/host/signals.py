"""Which signal means what to the daemon; None where the platform has no such signal."""

import signal

END = (signal.SIGTERM, signal.SIGINT)
# In a terminal: it was closed. As a service: read the config again.
HANG_UP: int | None = getattr(signal, "SIGHUP", None)
# An activated daemon asks the self-started one to hand over.
HAND_OVER: int | None = getattr(signal, "SIGUSR1", None)
