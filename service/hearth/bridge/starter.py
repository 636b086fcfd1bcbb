"""Starting a daemon when nobody listens. One bridge does it, under `start.lock`; the others wait and connect.

    lock ─▶ connect again ─▶ is there a socket unit, or an agent? ─yes─▶ ask systemd, or launchd, for it
                                        └─no─▶ start one, wait until it says that it listens

Knows nothing of the client that waits. Loaded behind the first answer.
"""

import os
import sys
from time import monotonic, sleep

from hearth.bridge.attempt import Attempt
from hearth.errors import RunsElsewhere, StartError
from hearth.host.locks import Lock
from hearth.paths import Places

if sys.platform == "win32":
    from hearth.bridge.spawn_windows import Child
    from hearth.bridge.windows_task import wake
elif sys.platform == "darwin":
    from hearth.bridge.launchd_agent import wake
    from hearth.bridge.spawn_posix import Child
else:
    from hearth.bridge.spawn_posix import Child
    from hearth.bridge.systemd_units import wake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Between two looks at the lock and the socket while somebody else starts the daemon.
LOOK_SECONDS = 0.02
# What the daemon writes when it listens, and how its reason begins when another one runs (docs/architecture.md).
READY = b"ok"
RUNNING = "running "
ELSEWHERE = "elsewhere "


def light(places: "Places", attempt: "Callable[[Places], Attempt]", deadline: float) -> Attempt:
    """Have a daemon started, and connect to it. Raises StartError when it cannot be."""
    lock = Lock(places.start_lock)
    while not lock.acquire(blocking=False):
        if monotonic() > deadline:
            return Attempt(hint=f"somebody else has been starting it all the time (who holds {places.start_lock}?)")
        sleep(LOOK_SECONDS)
        found = attempt(places)
        if not found.absent:
            return found
    try:
        # Whoever had the lock before may have started it.
        found = attempt(places)
        if not found.absent:
            return found
        try:
            hint = wake(places, os.environ) or _start(places, deadline)
        except RunsElsewhere as other:
            return _attempt_elsewhere(places, other.socket, attempt)
        found = attempt(places)
        return found if found.sock else Attempt(hint=hint)
    finally:
        lock.release()


def _attempt_elsewhere(places: "Places", socket: str, attempt: "Callable[[Places], Attempt]") -> Attempt:
    """Connect to the daemon of the same profile that runs with another runtime folder."""
    moved = Places(places.profile, places.config, named=socket)
    found = attempt(moved)
    if not found.sock:
        return Attempt(hint=f"the daemon at {socket} runs and is not to be reached")
    found.places = moved
    return found


def _start(places: "Places", deadline: float) -> str:
    """Start a daemon and wait until it listens; what to tell if it does not. Raises StartError with its reason."""
    where = ["--socket", places.named] if places.named else []
    command = [sys.executable, "-I", "-m", "hearth.daemon", *places.arguments(), *where, "--detach", "--ready-fd"]
    # The arguments say whose daemon it is; the variables could say something else.
    environment = {name: value for name, value in os.environ.items() if name not in ("HEARTH_CONFIG", "HEARTH_SOCKET")}
    try:
        daemon = Child(command, environment, numbered=True)
    except OSError as exc:
        raise StartError(f"{sys.executable} cannot be run: {exc.strerror}; is Hearth still installed?") from exc
    try:
        ended = daemon.read(deadline, enough=READY)
    finally:
        daemon.close()
    if not ended:
        return f"it was started and is not ready yet; {places.log} may say why"
    return judge(daemon.output.decode("utf-8", "replace"), places.log)


def judge(said: str, log: str) -> str:
    """What a daemon's first words mean: a hint if it may still be reached, else StartError. Pure."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if READY.decode() in lines:
        return "it said that it listens, and was gone again"
    if not lines:
        # Whoever has a reason says it; this one was killed. The next may live.
        return f"it ended as soon as it was started; {log} may say why"
    if lines[-1].startswith(ELSEWHERE):
        raise RunsElsewhere(lines[-1].removeprefix(ELSEWHERE))
    # Standard error goes to the same pipe until the daemon has a log: of a traceback, the last line says most.
    if lines[-1].startswith(RUNNING):
        return f"another daemon runs and is not to be reached ({lines[-1]})"
    raise StartError(f"it could not be started: {lines[-1]}")
