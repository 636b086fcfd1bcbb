"""Activation of a daemon when no process listens: by the service manager that holds its socket, or by the bridge.

One bridge does it, under `start.lock`; the others wait and connect.

    lock ─▶ connect again ─▶ is there a socket unit, an agent or a task? ─yes─▶ ask systemd, launchd or Windows for it
                                        └─no─▶ start one, wait until it says that it listens

Where the service manager holds the socket, the bridge never starts a daemon of its own. Knows nothing of the client
that waits. Loaded behind the first answer; what belongs to another system is not loaded at all.
"""

import os
import sys
from time import monotonic, sleep

from hearth.errors import RunsElsewhere, StartError
from hearth.host.locks import Lock
from hearth.paths import DEFAULT_PROFILE, Places, runtime_dir

if sys.platform == "win32":
    from hearth.bridge.spawn_windows import WindowsChild

    Child = WindowsChild
else:
    from hearth.bridge.spawn_posix import PosixChild

    Child = PosixChild

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hearth.bridge.connector import Stream

# Between two looks at the lock and the socket while somebody else starts the daemon.
LOOK_SECONDS = 0.02
# Word of a daemon that listens, and how its reason begins when another one runs (docs/architecture.md).
READY = b"ok"
RUNNING = "running "
ELSEWHERE = "elsewhere "
# systemctl answers in 20 ms; a manager that is starting or reloading takes longer.
SHOW_SECONDS = 5.0
# Starting a socket unit binds a socket; its service is not waited for.
UNIT_SECONDS = 10.0
# Variables that a daemon does not inherit: its arguments say whose it is, and a daemon is no part of the agent or the
# MCP server that the bridge runs under.
_NOT_PASSED_ON = ("HEARTH_CONFIG", "HEARTH_SOCKET", "HEARTH_AGENT", "HEARTH_SERVER")
_PROPERTIES = "--property=LoadState,ActiveState,Result"
# Loading an agent binds its socket; its daemon is not waited for.
LOAD_SECONDS = 10.0
# schtasks.exe answers in a tenth of a second.
RUN_SECONDS = 5.0
# A start of Python, on a machine that is busy with a logon. Then the bridge starts a daemon, as it does without a task.
TASK_SECONDS = 8.0
_GONE_AGAIN = "it was started, and was gone again"


class Attempt:
    """A connection, or what to know about its absence."""

    def __init__(self, sock: "Stream | None" = None, absent: bool = False, hint: str = "", token: str = "") -> None:
        self.sock = sock
        # Where the daemon was found, if it is another place than was asked for.
        self.places: Places | None = None
        # The token for `hello`, which a daemon on TCP requires.
        self.token = token
        # No process listens: it makes sense to start a daemon.
        self.absent = absent
        # The sentence for the person if it stays like this.
        self.hint = hint


def start(places: Places, attempt: "Callable[[Places], Attempt]", deadline: float) -> Attempt:
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
        # The holder of the lock before may have started it.
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


def _attempt_elsewhere(places: Places, socket: str, attempt: "Callable[[Places], Attempt]") -> Attempt:
    """Connect to the daemon of the same profile that runs with another runtime folder."""
    moved = Places(places.profile, places.config, named=socket)
    found = attempt(moved)
    if not found.sock:
        return Attempt(hint=f"the daemon at {socket} runs and is not to be reached")
    found.places = moved
    return found


def _start(places: Places, deadline: float) -> str:
    """Start a daemon and wait until it listens; what to tell if it does not. Raises StartError with its reason."""
    where = ["--socket", places.named] if places.named else []
    command = [sys.executable, "-I", "-m", "hearth.daemon", *places.arguments(), *where, "--detach", "--ready-fd"]
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
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
    """Interpret a daemon's first words: a hint if it may still be reached, else StartError. Pure."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if READY.decode() in lines:
        return "it said that it listens, and was gone again"
    if not lines:
        # A daemon with a reason says it; this one was killed. The next may live.
        return f"it ended as soon as it was started; {log} may say why"
    if lines[-1].startswith(ELSEWHERE):
        raise RunsElsewhere(lines[-1].removeprefix(ELSEWHERE))
    # Standard error goes to the same pipe until the daemon has a log: of a traceback, the last line says most.
    if lines[-1].startswith(RUNNING):
        return f"another daemon runs and is not to be reached ({lines[-1]})"
    raise StartError(f"it could not be started: {lines[-1]}")


# --- systemd


class ActivationUnits:
    """The socket unit of one daemon and the service behind it. `scope` is what reaches their systemd."""

    def __init__(self, name: str, scope: str = " --user") -> None:
        self.socket = f"{name}.socket"
        self.service = f"{name}.service"
        self.scope = scope


def units_of(places: Places) -> ActivationUnits | None:
    """Return the units' names; a daemon of a config or a socket given by its path has none."""
    if places.config or places.named:
        return None
    if places.system_wide and sys.platform != "win32":
        return ActivationUnits(f"mcp-user@{os.getuid()}", scope="")
    if places.profile == DEFAULT_PROFILE:
        return ActivationUnits("mcp")
    # As it is typed: every character of a profile may stand in a unit's name, and the units read it by %i.
    return ActivationUnits(f"mcp@{places.profile}")


def environment(environ: "Mapping[str, str]") -> dict[str, str] | None:
    """Return the environment in which systemctl finds this user's manager (MCP clients drop it); None if none."""
    runtime = runtime_dir()
    if sys.platform != "linux" or not os.path.exists(os.path.join(runtime, "systemd", "private")):
        return None
    found = {**environ, "XDG_RUNTIME_DIR": runtime, "LC_ALL": "C"}
    bus = os.path.join(runtime, "bus")
    if os.path.exists(bus):
        found["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={bus}"
    return found


def parse_show(text: str) -> list[dict[str, str]]:
    """Parse what `systemctl show` prints: one paragraph of KEY=VALUE for each unit."""
    return [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.split("\n\n")]


ABSENT, START, WAIT = "absent", "start", "wait"


def judge_units(units: ActivationUnits, socket: dict[str, str], service: dict[str, str]) -> str:
    """ABSENT: start a daemon yourself. START: the unit is installed and off. WAIT. Raises StartError if it failed."""
    if socket.get("LoadState") != "loaded":
        return ABSENT
    state = socket.get("ActiveState")
    failed = units.socket if state == "failed" else units.service if service.get("ActiveState") == "failed" else None
    if failed and state != "active":
        result = (socket if failed == units.socket else service).get("Result", "unknown")
        raise StartError(
            f"the unit {failed} has failed ({result}). `journalctl{units.scope} -u {units.service}` says why; then type"
            f" `systemctl{units.scope} reset-failed {units.socket} {units.service};"
            f" systemctl{units.scope} start {units.socket}`"
        )
    return START if state == "inactive" else WAIT


def wake_units(places: Places, environ: "Mapping[str, str]") -> str | None:
    """See to it that the socket unit is on. None: there is none. Otherwise what to tell if nobody listens still.

    Raises StartError when the unit has failed or does not start.
    """
    if sys.platform == "win32":
        return None
    from hearth.bridge import spawn_posix

    units = units_of(places)
    manager = {**environ, "LC_ALL": "C"} if places.system_wide else environment(environ)
    if units is None or manager is None:
        return None
    systemctl = ["systemctl", *units.scope.split()]
    code, text = spawn_posix.run([*systemctl, "show", _PROPERTIES, units.socket, units.service], manager, SHOW_SECONDS)
    states = parse_show(text)
    if code != 0 or len(states) != 2:
        # No systemctl, or a manager that does not answer: whoever depends on it could not have started it either.
        return None
    verdict = judge_units(units, states[0], states[1])
    if verdict == ABSENT:
        return None
    if verdict == START:
        # Only the administrator may start one of the system's; systemctl says so, and must not ask for a password.
        quietly = ["--no-ask-password"] if places.system_wide else []
        code, text = spawn_posix.run([*systemctl, *quietly, "start", units.socket], manager, UNIT_SECONDS)
        if code != 0:
            raise StartError(f"`systemctl{units.scope} start {units.socket}` did not work: {text}")
    return f"{units.socket} is on, but nobody listens there; try `systemctl{units.scope} restart {units.socket}`"


# --- launchd


def preload() -> None:
    """Load the modules that waking needs here: at the daemon's death an upgrade may have removed their files."""
    if sys.platform == "win32":
        from hearth import sids  # noqa: F401
        from hearth.host.windows import task  # noqa: F401
    elif sys.platform == "darwin":
        from hearth.host.macos import launchd  # noqa: F401


def wake_agent(places: Places, environ: "Mapping[str, str]") -> str | None:
    """See to it that the agent is loaded. None: there is none. Otherwise what to tell if nobody listens still.

    Raises StartError when it cannot be loaded.
    """
    if sys.platform == "win32":
        return None
    from hearth.bridge import spawn_posix
    from hearth.host.macos import launchd

    if not launchd.serves(places) or not os.path.lexists(launchd.file()):
        return None
    deaf = f"launchd has {launchd.LABEL}, but nobody listens there; `hearth install` sets it up anew"
    known, load = ["launchctl", "print", launchd.job()], ["launchctl", "bootstrap", launchd.domain(), launchd.file()]
    code, said = spawn_posix.run(known, environ, SHOW_SECONDS)
    if code == 0:
        return deaf
    if launchd.is_too_old(said):
        known, load = ["launchctl", "list", launchd.LABEL], ["launchctl", "load", launchd.file()]
    elif spawn_posix.run(["launchctl", "print", launchd.domain()], environ, SHOW_SECONDS)[0] != 0:
        # No user is logged in at the screen, so this user's agents are not loaded; or there is no launchctl.
        return None
    if spawn_posix.run(known, environ, SHOW_SECONDS)[0] != 0:
        code, said = spawn_posix.run(load, environ, LOAD_SECONDS)
        # The exit code of `load` says nothing; and somebody else may have loaded it meanwhile.
        if spawn_posix.run(known, environ, SHOW_SECONDS)[0] != 0:
            raise StartError(f"`{' '.join(load)}` did not work: {said or code}. `hearth install` sets it up anew")
    return deaf


# --- Windows


def wake_task(places: Places, environ: "Mapping[str, str]") -> str | None:
    """Wait for the daemon that Windows starts. None: it starts none. Otherwise what to tell if nobody listens still."""
    from hearth import sids
    from hearth.host.windows import task

    if not task.serves(places):
        return None
    if not task.service_is_there():
        if not os.path.lexists(task.file()):
            return None
        _run([task.scheduler(), "/run", "/tn", task.name(sids.own())], environ)
    return _GONE_AGAIN if _is_served(places.socket) else None


def _run(command: list[str], environ: "Mapping[str, str]") -> None:
    """Run a short program, and wait for its end. One that cannot be run is noticed by what does not come of it."""
    try:
        child = Child(command, environ)
    except OSError:
        return
    child.read(monotonic() + RUN_SECONDS)
    child.close()


def _is_served(pipe: str) -> bool:
    if sys.platform != "win32":
        return False
    import _winapi

    deadline = monotonic() + TASK_SECONDS
    while monotonic() < deadline:
        try:
            # One millisecond: 0 would mean as long as the server likes.
            _winapi.WaitNamedPipe(pipe, 1)
        except FileNotFoundError:
            sleep(LOOK_SECONDS)
        except OSError:
            # The pipe is there, and busy.
            return True
        else:
            return True
    return False


if sys.platform == "win32":
    wake = wake_task
elif sys.platform == "darwin":
    wake = wake_agent
else:
    wake = wake_units
