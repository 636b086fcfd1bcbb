"""Entry point of the daemon, with a guard: an activated daemon always reaches `accept`.

Any failure on the way (a config that does not parse, a read-only folder, a module that cannot be imported) leads to a
degraded daemon that tells every client the reason. Otherwise systemd would start the daemon hundreds of times, or give
up on the socket. So nothing heavier than the standard library is imported outside the guard.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hearth.errors import AlreadyRunning, FileAccessError, HearthError, Refused, RunsElsewhere, StartError
from hearth.host import process_setup
from hearth.host.linux import systemd
from hearth.host.listening import Connection, Listener, inherit, listen, peer_of, refusal
from hearth.host.sockets import OWNER_ONLY, Access
from hearth.host.stdio import say
from hearth.paths import DEFAULT_PROFILE, Places, socket_path

if TYPE_CHECKING:
    from hearth.daemon.daemon_lock import DaemonLock
    from hearth.host.stdio import Streams


class SpawnerControl(Protocol):
    """Spawner of servers in control groups of their own. Linux only: see `host.linux.cgroup_spawner`."""

    def put_to_use(self) -> None:
        """Start all further servers through this spawner."""

    def close(self) -> None:
        """Stop the spawner."""


class OrphanControl(Protocol):
    """Descendants of servers that became children of the daemon. Linux only: see `host.linux.orphan_reaper`."""

    def reap(self) -> None:
        """Reap the orphans that have exited."""

    def end(self) -> None:
        """Kill and reap all orphans."""


# Options of the command line; `DaemonOptions` has an attribute for each.
_FLAGS = {"--detach", "--delegated", "--watched", "--allow-remote", "--stdio", "--aloud"}
_VALUES = {"--profile", "--config", "--socket", "--ready-fd", "--http"}


class DaemonOptions:
    """Command line of `python -m hearth.daemon`. People use `hearth serve` instead: see `hearth serve --help`."""

    def __init__(self, arguments: list[str]) -> None:
        self.profile = DEFAULT_PROFILE
        self.config = os.environ.get("HEARTH_CONFIG") or None
        # The path of the socket, unless it is the default one.
        self.socket = os.environ.get("HEARTH_SOCKET") or None
        self.detach = False
        self.delegated = False
        # The daemon has an orphan reaper already, because it was executed again.
        self.watched = False
        self.ready_fd = -1
        # HOST:PORT of an additional TCP port that serves HTTP.
        self.http: str | None = None
        self.allow_remote = False
        # Serve one client on standard input and output instead of listening on a socket.
        self.stdio = False
        # Copy the log to standard error: a person reads it there, or a container collects it.
        self.aloud = False
        remaining = list(arguments)
        while remaining:
            name, given, value = remaining.pop(0).partition("=")
            if name not in _FLAGS and (name not in _VALUES or not (given or remaining)):
                raise StartError(f"unknown or incomplete option {name!r}; see 'hearth serve --help'")
            if name in _FLAGS:
                setattr(self, _attribute(name), True)
                continue
            value = value if given else remaining.pop(0)
            setattr(self, _attribute(name), int(value) if name == "--ready-fd" else value)
            if name == "--profile":
                # The command line wins over the environment, here as in the bridge.
                self.config = None

    def again(self) -> list[str]:
        """Return the command line for an exec of this daemon, which is detached and has reported by then."""
        which = ["--profile", self.profile] if self.config is None else ["--config", self.config]
        which += [] if self.socket is None else ["--socket", self.socket]
        http = [] if self.http is None else ["--http", self.http]
        flags = ("--delegated", "--watched", "--allow-remote", "--aloud")
        return [*which, *http, *(flag for flag in flags if getattr(self, _attribute(flag)))]


def _attribute(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


class Signature(NamedTuple):
    """Metadata that tells one state of a file from the next."""

    mtime_ns: int
    size: int
    inode: int
    # The only field that changes when an unreadable file becomes readable.
    ctime_ns: int


def signature(path: str) -> Signature | None:
    """Return the state of a file, or None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Signature(found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)


# Called when the daemon serves, with a function that stops it from any thread; that function takes the reason.
Serving = Callable[[Callable[[str], None]], None]


class Start:
    """Circumstances of this daemon's start, and the reports that the process that started it waits for."""

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
        # Taken before the file is read, so that every later write to it is noticed.
        self.config_seen = signature(places.config_file())
        # The reason why another config than the file's is in force.
        self.config_error: str | None = None
        self.notifier = systemd.Notifier()
        # None where the service manager has delegated no control group.
        self.spawner: SpawnerControl | None = None
        # None where the service manager or the operating system kills the processes that servers leave behind.
        self.orphans: OrphanControl | None = None
        self._listener = listener
        self._ready_fd = ready_fd
        # HOST:PORT if a person has asked for a port, and whether other machines may reach it.
        self.http: tuple[str, bool] | None = None
        # The streams of the one client in stdio mode, which has neither a socket nor a registry entry.
        self.streams: Streams | None = None
        self.aloud = False

    @property
    def stays(self) -> bool:
        """Whether the daemon keeps running while it is idle."""
        return self.http is not None or self.streams is not None

    def ports(self) -> list[socket.socket]:
        """Return the TCP sockets to serve HTTP on: the inherited ones, and the one that `--http` asks for.

        Raises StartError and FileAccessError.
        """
        handed = list(getattr(self._listener, "ports", ()))
        if self.http is None:
            return handed
        from hearth.host import sockets
        from hearth.secrets import http_token

        address, allow_remote = self.http
        host, _, port = address.rpartition(":")
        http_token.ensure()
        bound = sockets.bind_port(host.strip("[]"), int(port), allow_remote)
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
        """The holder of the socket: systemd, launchd, or the daemon itself."""
        return "stdio" if self.streams else self._listener.holder if self._listener else "self"

    def listen(self, where: str = "", access: Access = OWNER_ONLY) -> Listener:
        """Return the inherited listener, or a new one at `where`, as `listen` describes it. Raises the same errors."""
        return self._listener or listen(where, self.places.socket, access)

    def report(self, line: str) -> None:
        """Write one line to the bridge that waits on the ready pipe; later calls do nothing."""
        if self._ready_fd < 0:
            return
        try:
            os.write(self._ready_fd, line.encode("utf-8", "replace") + b"\n")
            os.close(self._ready_fd)
        except OSError:
            # The bridge has stopped waiting.
            pass
        self._ready_fd = -1


def main(arguments: list[str], serving: Serving = lambda end: None) -> int:
    """Run a daemon until it stops and return the exit code. `serving` is for a caller that runs it in a thread."""
    try:
        options = DaemonOptions(arguments)
        named = socket_path(options.socket) if options.socket else None
        places = Places(options.profile, options.config, named=named)
    except (HearthError, ValueError) as exc:
        say(f"hearth: {exc}")
        return 2
    process_setup.forbid_core_dumps()
    streams = _streams() if options.stdio else None
    try:
        listener = None if options.stdio else _inherited(places)
    except Refused as exc:
        print(f"hearth: {exc}", file=sys.stderr)
        return exc.exit_code
    if listener is not None and listener.holder == "systemd" and not places.named:
        # Clients connect to this socket, whatever the default path is by now: the locks belong beside it.
        places = Places(options.profile, options.config, adopted=listener.address())
        listener.path = places.socket
    if options.ready_fd >= 0:
        options.ready_fd = process_setup.take_descriptor(options.ready_fd)
    if options.detach:
        systemd.forget_manager()
        process_setup.close_inherited({options.ready_fd})
        process_setup.detach(places.log)
    # With a listener the process is either the service manager's child or has an orphan reaper already.
    if listener is None and sys.platform == "linux":
        from hearth.host.linux.orphan_reaper import fork_watched

        options.watched = fork_watched()
        if not options.watched:
            say(
                "hearth: warning: no orphan reaper could be set up (prctl): processes that the MCP servers leave behind"
                " may outlive the daemon"
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
        from hearth.host.linux.orphan_reaper import Orphans

        start.orphans = Orphans()
    code = _run(start)
    if start.orphans:
        start.orphans.end()
    return code


def _streams() -> "Streams":
    """Take the client's streams before other code can write to them, and before the orphan reaper can inherit them."""
    from hearth.host import stdio

    # The service manager's variables are meant for the process that started us.
    systemd.forget_manager()
    if os.isatty(stdio.INPUT):
        say("hearth: MCP on this terminal: one JSON message in a line, Ctrl-D ends it")
    return stdio.take()


def _hold_descendants() -> None:
    """Hold all descendants in a job object on Windows; elsewhere the orphan reaper does this."""
    if sys.platform != "win32":
        return
    from hearth.host.windows import processes

    try:
        processes.hold_descendants()
    except OSError as exc:
        say(f"hearth: warning: no job object: what the MCP servers leave behind may outlive the daemon: {exc}")


def _inherited(places: Places) -> Listener | None:
    """Return the inherited listener.

    A service manager that starts us without a socket gets a warning, and a daemon that binds its own. Raises Refused
    if only ports were handed over.
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
        return _run_degraded(start, exc)


def _run_degraded(start: Start, cause: Exception) -> int:
    """Explain `cause` to every client until it may be fixed or no client asks, and return the exit code."""
    from hearth.daemon.degraded import core

    reason = core.describe(cause)
    is_refused = isinstance(cause, StartError | FileAccessError) or not (start.streams or start.adopted)
    # A person who asked for a port reads this output: no other client needs that daemon.
    if (is_for_person := start.http is not None and is_refused) or start.streams:
        say(f"hearth: {reason}")
        if start.streams and not is_for_person:
            # No work is pending that would have to be finished before an interrupt.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            core.explain_to_streams(start.streams.read, start.streams.write, reason)
        return int(getattr(cause, "exit_code", 1))
    if start.spawner:
        # No server will be started, and the spawner would be left behind when the process executes itself again.
        start.spawner.close()
    lock: DaemonLock | None = None
    try:
        lock = _take_lock(start)
        listener = start.listen()
        if lock:
            lock.register("degraded", "", listener.path, listener.token)
    except HearthError as exc:
        if lock:
            lock.release()
        reason = reason if reason == str(exc) else f"{reason} ({exc})"
        say(f"hearth: {reason}")
        start.report(reason)
        return exc.exit_code
    say(f"{'<3>' if start.activation == 'systemd' else ''}hearth: degraded: {reason}")
    start.report("ok")
    try:
        _serve_degraded(start, listener, reason)
    finally:
        listener.retire()
        if lock:
            lock.release()
    return 0


def _take_lock(start: Start) -> "DaemonLock | None":
    """Take the daemon lock. An activated daemon goes on without it and gets None; others raise the error."""
    try:
        from hearth.daemon.daemon_lock import DaemonLock

        lock = DaemonLock(start.places)
        lock.take(start.adopted)
    except Exception:
        if not start.adopted:
            raise
        return None
    return lock


def _serve_degraded(start: Start, listener: Listener, reason: str) -> None:
    from hearth import __version__
    from hearth.daemon.degraded.core import Degraded

    def is_welcome(connection: Connection) -> bool:
        # This user only: other allowed users are named in the config, which may be broken.
        return refusal(peer_of(connection), (), ()) is None

    def has_config_changed() -> bool:
        return signature(config_file) != start.config_seen

    config_file = start.places.config_file()
    facts = {
        "endpoint": start.places.socket,
        "version": __version__,
        "profile": start.places.key,
        "configPath": config_file,
        "activation": start.activation,
    }
    if sys.platform == "win32":
        from hearth.daemon.degraded import windows

        windows.serve(Degraded(reason, None, has_config_changed, facts), listener, is_welcome)
    else:
        from hearth.daemon.degraded import posix

        def execute_again() -> None:
            listener.hand_on()
            process_setup.restore_core_dumps()
            posix.execute_again(start.again)

        posix.serve(Degraded(reason, execute_again, has_config_changed, facts), listener, start.notifier, is_welcome)
