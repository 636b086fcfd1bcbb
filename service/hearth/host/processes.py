"""Other processes: whether one lives, and how to signal or await it without hitting a stranger.

A process is a pid *and* its start time: the kernel gives a pid to somebody else once its owner is dead. The
start time is an integer in the platform's own unit, good for comparing and nothing else. UNKNOWN_START_TIME
stands for "this platform does not tell"; then the pid alone must do.
"""

import sys

from hearth.host.start_times import UNKNOWN_START_TIME

if sys.platform == "win32":
    from hearth.host.windows.processes import is_alive, send_signal, start_time, wait_gone
else:
    from hearth.host.posix.processes import is_alive, send_signal, start_time, wait_gone

__all__ = ["UNKNOWN_START_TIME", "is_alive", "send_signal", "start_time", "wait_gone"]
