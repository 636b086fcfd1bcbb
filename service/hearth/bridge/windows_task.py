"""Whether Windows starts the daemon: the counterpart of `units` and `agents`. Knows nothing of connecting.

Nothing holds the pipe while no daemon runs. Where there is the service, whoever opens the pipe has set it off already;
where there is the logon task, the Task Scheduler is asked to run it: then the daemon is nobody's child, has the
variables of the logon, and outlives a client whose job lets nobody out. Where neither brings it up, the bridge starts
one itself.
"""

import os
import sys
from time import monotonic, sleep

from hearth import sids
from hearth.host.windows import task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hearth.paths import Places

# schtasks.exe answers in a tenth of a second.
RUN_SECONDS = 5.0
# A start of Python, on a machine that is busy with a logon. Then the bridge starts a daemon, as it does without a task.
START_SECONDS = 8.0
_LOOK_SECONDS = 0.02
_GONE_AGAIN = "it was started, and was gone again"


def wake(places: "Places", environ: "Mapping[str, str]") -> str | None:
    """Wait for the daemon that Windows starts. None: it starts none. Otherwise what to tell if nobody listens still."""
    if not task.serves(places):
        return None
    if not task.service_is_there():
        if not os.path.lexists(task.file()):
            return None
        _run([task.scheduler(), "/run", "/tn", task.name(sids.own())], environ)
    return _GONE_AGAIN if _is_served(places.socket) else None


def _run(command: list[str], environ: "Mapping[str, str]") -> None:
    """Run a short program, and wait for its end. One that cannot be run is noticed by what does not come of it."""
    if sys.platform == "win32":
        from hearth.bridge.spawn_windows import Child

        try:
            child = Child(command, environ)
        except OSError:
            return
        child.read(monotonic() + RUN_SECONDS)
        child.close()


def _is_served(pipe: str) -> bool:
    deadline = monotonic() + START_SECONDS
    while monotonic() < deadline:
        if _exists(pipe):
            return True
        sleep(_LOOK_SECONDS)
    return False


def _exists(pipe: str) -> bool:
    if sys.platform != "win32":
        return False
    import _winapi

    try:
        # One millisecond: 0 would mean as long as the server likes.
        _winapi.WaitNamedPipe(pipe, 1)
    except FileNotFoundError:
        return False
    except OSError:
        # It is there, and busy.
        return True
    return True
