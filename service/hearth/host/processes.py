"""Other processes: checks whether one is alive, and signals to it or waits for its end that never hit a wrong process.

A process is a pid *and* its start time: the kernel reuses a pid once its process is dead. The start time is an integer
in the platform's own unit, good for comparing and nothing else. UNKNOWN_START_TIME means that the platform does not
report one; processes are then compared by pid alone.
"""

import sys

from hearth.host.start_times import UNKNOWN_START_TIME

if sys.platform == "win32":
    from hearth.host.windows.processes import is_alive, send_signal, start_time, wait_gone
else:
    from hearth.host.posix.processes import is_alive, send_signal, start_time, wait_gone

__all__ = ["UNKNOWN_START_TIME", "is_alive", "send_signal", "start_time", "wait_gone"]
