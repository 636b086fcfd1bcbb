"""The way into the daemon, guarded: an activated daemon always reaches `accept`.

Whatever goes wrong on the way (a config that does not parse, a read-only folder, a module that cannot be imported)
becomes a degraded daemon that tells every client the reason. Otherwise systemd would start it hundreds of times, or
give up on the socket. So nothing heavier than the standard library is imported outside the guard.
"""

import os
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hearth.errors import AlreadyRunning, HearthError, Refused, RunsElsewhere, StartError
from hearth.host.access import OWNER_ONLY, Access
from hearth.host.linux import systemd
from hearth.host.listening import Listener, inherit, listen
from hearth.host.posix import background, core_dumps
from hearth.host.stdio import say
from hearth.paths import DEFAULT_PROFILE, Places, socket_path

if TYPE_CHECKING:
    from hearth.host.stdio import Streams


class Nursery(Protocol):
    """Starts servers in control groups. Only Linux has one: see `host.nursery`."""

    def put_to_use(self) -> None:
        """Servers are started by it from now on."""

    def close(self) -> None:
        """End it."""


class Orphans(Protocol):
    """Descendants of servers that became children of the daemon. Only Linux has them: see `host.watcher`."""

    def reap(self) -> None:
        """Reap those that have ended."""

    def end(self) -> None:
        """Kill and reap all."""


class Options:
    """The command line of `python -m hearth.daemon`, which is not typed by people: see `hearth serve --help`."""

    def __init__(self, arguments: list[str]) -> None:
        self.profile = DEFAULT_PROFILE
        self.config = os.environ.get("HEARTH_CONFIG") or None
        # The path of the socket, where it is not the default one.
        self.socket = os.environ.get("HEARTH_SOCKET") or None
        self.detach = False
        self.delegated = False
        # The daemon has a watcher already: it was executed again.
        self.watched = False
        self.ready_fd = -1
        # Where HTTP is served over TCP besides, as HOST:PORT.
        self.http: str | None = None
        self.allow_remote = False
        # One client, at standard input and output, instead of whoever finds the daemon.
        self.stdio = False
        # The log is told to standard error as well: somebody sits in front of it, or a container collects it.
        self.aloud = False
        remaining = list(arguments)
        while remaining:
            name, given, value = remaining.pop(0).partition("=")
            if name == "--detach":
                self.detach = True
                continue
            if name == "--delegated":
                self.delegated = True
                continue
            if name == "--watched":
                self.watched = True
                continue
            if name == "--allow-remote":
                self.allow_remote = True
                continue
            if name == "--stdio":
                self.stdio = True
                continue
            if name == "--aloud":
                self.aloud = True
                continue
            if name not in {"--profile", "--config", "--socket", "--ready-fd", "--http"} or not (given or remaining):
                raise StartError(f"unknown or incomplete option {name!r}; see 'hearth serve --help'")
            self._set(name, value if given else remaining.pop(0))

    def _set(self, name: str, value: str) -> None:
        if name == "--profile":
            # What is named on the command line wins over the environment, here as in the bridge.
            self.profile, self.config = value, None
        elif name == "--config":
            self.config = value
        elif name == "--socket":
            self.socket = value
        elif name == "--http":
            self.http = value
        else:
            self.ready_fd = int(value)

    def again(self) -> list[str]:
        """The command line for an exec of this daemon, which is detached and has reported by then."""
        which = ["--profile", self.profile] if self.config is None else ["--config", self.config]
        which += [] if self.socket is None else ["--socket", self.socket]
        http = [] if self.http is None else ["--http", self.http]
        flags = {
            "--delegated": self.delegated,
            "--watched": self.watched,
            "--allow-remote": self.allow_remote,
            "--aloud": self.aloud,
        }
        return [*which, *http, *(flag for flag, is_set in flags.items() if is_set)]


class Signature(NamedTuple):
    """What tells one state of a file from the next."""

    mtime_ns: int
    size: int
    inode: int
    # A file that could not be read, and now can, has this alone to show for it.
    ctime_ns: int


def signature(path: str) -> Signature | None:
    """The state of a file; None when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Signature(found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)


# Told, when the daemon serves, how to have it end from any thread: a function that takes the reason.
Serving = Callable[[Callable[[str], None]], None]


class Start:
    """How this daemon was started, and what it owes to whoever did it."""

    def __init__(
        self,
        places: Places,
        listener: Listener | None,
        ready_fd: int,
        again: list[str],
        serving: Serving = lambda end: None,
    ) -> None:
        self.places = places
        self.serving = serving
        self.again = again
        # Taken before the file is read: whatever is written to it from now on is noticed.
        self.config_seen = signature(places.config_file())
        # Why another config than the file's is in force.
        self.config_error: str | None = None
        self.notifier = systemd.Notifier()
        # None where the service manager has handed none over.
        self.spawner: Nursery | None = None
        # None where a service manager or another system ends what servers leave behind.
        self.orphans: Orphans | None = None
        self._listener = listener
        self._ready_fd = ready_fd
        # HOST:PORT, where a person has asked for a port, and whether others may reach it.
        self.http: tuple[str, bool] | None = None
        # What its one client reads and writes; there is neither a socket nor a registry entry then.
        self.streams: Streams | None = None
        self.aloud = False

    @property
    def stays(self) -> bool:
        """Whether the daemon does not go out because nobody is there."""
        return self.http is not None or self.streams is not None

    def ports(self) -> list[socket.socket]:
        """The TCP sockets to serve HTTP on: those that were handed over, and one that was asked for.

        Raises StartError.
        """
        handed = list(getattr(self._listener, "ports", ()))
        if self.http is None:
            return handed
        from hearth.host import tcp_ports
        from hearth.secrets import http_token

        address, allow_remote = self.http
        host, _, port = address.rpartition(":")
        http_token.ensure()
        bound = tcp_ports.bind(host.strip("[]"), int(port), allow_remote)
        number = bound.getsockname()[1]
        if int(port) not in (0, number):
            import logging

            logging.getLogger(__name__).warning("port %s is taken: HTTP is served on port %d", port, number)
        return [*handed, bound]

    @property
    def adopted(self) -> bool:
        """Whether the service manager holds the socket."""
        return self._listener is not None and not self._listener.owned

    @property
    def activation(self) -> str:
        """Who holds the socket: systemd, launchd, or the daemon itself."""
        return "stdio" if self.streams else self._listener.holder if self._listener else "self"

    def listen(self, where: str = "", access: Access = OWNER_ONLY) -> Listener:
        """Return the listener that was handed over, or a new one at `where`, as `listen` says. Raises StartError."""
        return self._listener or listen(where, self.places.socket, access)

    def report(self, line: str) -> None:
        """Tell the bridge that waits on the ready pipe, once."""
        if self._ready_fd < 0:
            return
        try:
            os.write(self._ready_fd, line.encode("utf-8", "replace") + b"\n")
            os.close(self._ready_fd)
        except OSError:
            # It stopped waiting.
            pass
        self._ready_fd = -1


def main(arguments: list[str], serving: Serving = lambda end: None) -> int:
    """Run a daemon until it goes out; returns the exit code. `serving` is for who runs it in a thread of theirs."""
    try:
        options = Options(arguments)
        named = socket_path(options.socket) if options.socket else None
        places = Places(options.profile, options.config, named=named)
    except (HearthError, ValueError) as exc:
        say(f"hearth: {exc}")
        return 2
    core_dumps.forbid()
    streams = _streams() if options.stdio else None
    try:
        listener = None if options.stdio else _inherited(places)
    except Refused as exc:
        print(f"hearth: {exc}", file=sys.stderr)
        return exc.exit_code
    if listener is not None and listener.holder == "systemd" and not places.named:
        # Whoever connects has found this socket, wherever others would look by now: the locks belong beside it.
        places = Places(options.profile, options.config, adopted=listener.address())
        listener.path = places.socket
    if options.ready_fd >= 0:
        options.ready_fd = background.take_descriptor(options.ready_fd)
    if options.detach:
        systemd.forget_manager()
        background.close_inherited({options.ready_fd})
        background.detach(places.log)
    # With a listener it is either the service manager's child or watched already.
    if listener is None and sys.platform == "linux":
        from hearth.host.linux.orphan_reaper import fork_watched

        options.watched = fork_watched()
        if not options.watched:
            say(
                "hearth: warning: no watcher could be set up (prctl): processes that the MCP servers leave behind may"
                " outlive the daemon"
            )
    _hold_descendants()
    start = Start(places, listener, options.ready_fd, options.again(), serving)
    start.streams = streams
    start.aloud = options.aloud
    if options.http is not None:
        start.http = (options.http, options.allow_remote)
    if listener is not None and options.delegated and sys.platform == "linux":
        from hearth.host.linux import cgroup_spawner

        start.spawner = cgroup_spawner.start()
    if options.watched and sys.platform == "linux":
        from hearth.host.linux.orphan_reaper import Orphans as Inherited

        start.orphans = Inherited()
    code = _run(start)
    if start.orphans:
        start.orphans.end()
    return code


def _streams() -> "Streams":
    """The client's, before anybody else could write to them; the watcher is not to have them either."""
    from hearth.host import stdio

    # What is set for whoever started us is not for us.
    systemd.forget_manager()
    if os.isatty(stdio.INPUT):
        say("hearth: MCP on this terminal: one JSON message in a line, Ctrl-D ends it")
    return stdio.take()


def _hold_descendants() -> None:
    """What the watcher is for elsewhere, a job object does on Windows."""
    if sys.platform != "win32":
        return
    from hearth.host.windows import jobs

    try:
        jobs.hold_descendants()
    except OSError as exc:
        say(f"hearth: warning: no job object: what the MCP servers leave behind may outlive the daemon: {exc}")


def _inherited(places: Places) -> Listener | None:
    """What was handed over. A manager that starts us without a socket gets a daemon that binds its own, and is told.

    Raises Refused for ports alone.
    """
    try:
        return inherit(places.socket)
    except StartError as exc:
        say(f"hearth: warning: {exc}")
        return None


def _run(start: Start) -> int:
    try:
        from hearth.daemon.startup import run

        return run(start)
    except AlreadyRunning as exc:
        start.report(f"elsewhere {exc.socket}" if isinstance(exc, RunsElsewhere) else f"running {exc}")
        say(f"hearth: {exc}")
        return exc.exit_code
    except Exception as exc:
        if start.http is not None and (isinstance(exc, StartError) or not (start.streams or start.adopted)):
            # A person asked for a port and sits in front of it: who else connects has no need of this daemon.
            from hearth.daemon.degraded.core import describe, exit_code_of

            say(f"hearth: {describe(exc)}")
            return exit_code_of(exc)
        if start.streams is not None:
            from hearth.daemon.degraded.stdio import run as run_degraded_stdio

            return run_degraded_stdio(start.streams, exc)
        from hearth.daemon.degraded.core import run as run_degraded

        if start.spawner:
            # No server will be started; and it would be left behind when the process executes itself anew.
            start.spawner.close()
        return run_degraded(start, exc)
