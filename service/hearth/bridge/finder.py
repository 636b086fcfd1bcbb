"""Finder of a daemon: when to try, how long, and what to say when there is none. Loaded behind the first answer.

Decides; `connector` connects, `activation` starts, the bridge waits and tells its client. Also reads the registry
entry: where a daemon listens that is not at its usual socket, and its token. The entry is the daemon's as long as that
one holds the daemon lock; the first who finds the lock free removes it.
"""

import os
from time import monotonic

from hearth import socket_trust
from hearth.bridge import activation, connector, jsonlite
from hearth.bridge.activation import Attempt
from hearth.errors import FileAccessError, FrameError, HearthError, Unreachable
from hearth.host.folders import remove_file
from hearth.host.locks import Lock
from hearth.paths import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.bridge.connector import Stream
    from hearth.bridge.pump import Bridge

TCP = "tcp:"
FIRST_DELAY_SECONDS = 0.05
# Long enough to spare a machine on which the daemon keeps dying, short enough not to be felt when it is mended.
LAST_DELAY_SECONDS = 2.0
# All bridges of a daemon that restarts come back within this time, not in the same instant.
SPREAD_SECONDS = 0.1
# A connection that lasted so long, or answered something, was a good one.
STABLE_SECONDS = 5.0
# So many bad ones in a row, and nobody is waiting: the next line of the client is soon enough.
TRIES_FOR_NOBODY = 10

# The entry has nine short values; a longer file is not ours.
_SIZE_LIMIT_BYTES = 64 * 1024
_REGULAR, _TYPE_BITS = 0o100000, 0o170000


class Backoff:
    """How long to wait before the next try. Pure: chance comes from outside, in 0 to 1."""

    def __init__(self) -> None:
        self.failures = 0

    def reset(self) -> None:
        """Note that the last try was a good one."""
        self.failures = 0

    def delay(self, chance: float) -> float:
        """Nothing, then doubling from the first delay to the last, each shortened at random by up to a half."""
        self.failures += 1
        if self.failures == 1:
            return 0.0
        # The exponent is bounded: a float overflows at 2**1024.
        longest = min(LAST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(self.failures - 2, 16))
        return longest * (1 - chance / 2)


class Patience:
    """How long the client has been waiting. The time runs from the first line that waits. Pure."""

    def __init__(self, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._since = now
        self._waiting = False

    def left(self, now: float, waiting: bool) -> float:
        """Seconds until patience ends; zero or less when it has."""
        if waiting and not self._waiting:
            self._since = now
        self._waiting = waiting
        return self._since + self._seconds - now


class Finder:
    """Finds daemons for one bridge, and remembers how well that went."""

    def __init__(self, bridge: "Bridge") -> None:
        self._bridge = bridge
        self._backoff = Backoff()
        self._patience = Patience(bridge.patience, monotonic())

    def reach(self) -> "Stream":
        """Connect, whatever it takes; meanwhile requests that waited too long are answered with errors."""
        self._wait_for_reason()
        self._patience = Patience(self._bridge.patience, monotonic())
        while True:
            self._bridge.waiting.pause(self._backoff.delay(_chance()))
            try:
                self._bridge.read_role_token()
            except FileAccessError as exc:
                self._give_up(str(exc))
                continue
            try:
                found = _try(self._bridge, self._seconds_left())
            except HearthError as exc:
                self._give_up(f"Hearth's daemon cannot be reached: {exc}")
                continue
            if found.sock:
                self._bridge.token = found.token
                self._bridge.places = found.places or self._bridge.places
                return found.sock
            if self._seconds_left() <= 0:
                self._give_up(
                    f"Hearth's daemon could not be reached within {self._bridge.patience:g} s:"
                    f" {found.hint or 'it does not answer'}."
                    " `hearth doctor` looks for the cause; the next request tries again."
                )

    def _wait_for_reason(self) -> None:
        """After a connection: come back at once, a little later, or with the client's next line."""
        bridge, ledger = self._bridge, self._bridge.ledger
        if ledger.answered or bridge.connected_for() >= STABLE_SECONDS:
            self._backoff.reset()
        if ledger.refusal is not None:
            # The sentence of a daemon that is older than `--to`.
            is_old = bridge.target is not None and "speaks frame protocol" in ledger.refusal
            advice = "; --to needs a daemon of this version, which `hearth restart` starts" if is_old else ""
            self._give_up(f"Hearth's daemon refused this connection: {ledger.refusal}{advice}")
        elif ledger.goodbye is False or self._backoff.failures >= TRIES_FOR_NOBODY:
            bridge.waiting.rest()
        elif ledger.goodbye:
            bridge.waiting.pause(SPREAD_SECONDS * _chance())

    def _seconds_left(self) -> float:
        return self._patience.left(monotonic(), waiting=bool(self._bridge.ledger.table))

    def _give_up(self, sentence: str) -> None:
        """Answer the lines that wait, and try again with the next one; end if no daemon may be started."""
        self._bridge.fail_pending(sentence)
        if not self._bridge.starts:
            os._exit(1)
        self._bridge.waiting.rest()
        self._backoff.reset()
        self._patience = Patience(self._bridge.patience, monotonic())


def _try(bridge: "Bridge", seconds: float) -> Attempt:
    """Connect, or start a daemon and connect. Raises HearthError when waiting would not help."""
    found = attempt(bridge.places)
    if found.absent and _has_moved(bridge):
        found = attempt(bridge.places)
    if found.absent and bridge.starts:
        return activation.start(bridge.places, attempt, monotonic() + max(seconds, 0.0))
    return found


def find_running(places: Places) -> Attempt:
    """Connect to a daemon that runs already, if it is not too busy. Raises Unreachable when there is none."""
    found = attempt(places)
    if found.absent:
        raise Unreachable(f"no daemon runs ({found.hint}), and --no-start forbids to start one; `hearth serve` does")
    return found


def _has_moved(bridge: "Bridge") -> bool:
    """Return whether a daemon belongs to another place by now; a bridge that was just started would look there.

    The administrator has set up a socket for this user, or has taken it away; a login has brought a runtime folder.
    """
    former = bridge.places
    if former.config or former.named:
        # Named by a file that was looked up then; another one may be there by now.
        return False
    bridge.places = Places(former.profile)
    return bridge.places.socket != former.socket


def attempt(places: Places) -> Attempt:
    """Connect once: at the usual socket, or where the registry says. Raises Unreachable for what a person must mend."""
    found = _attempt_at(places.socket)
    if found.absent:
        elsewhere = look_up(places)
        if elsewhere is not None and elsewhere[0] != places.socket:
            return _attempt_elsewhere(places, *elsewhere)
    return found


def _attempt_elsewhere(places: Places, endpoint: str, token: str) -> Attempt:
    if not endpoint.startswith(TCP):
        return _attempt_at(endpoint)
    host, _, port = endpoint.removeprefix(TCP).rpartition(":")
    try:
        sock = connector.open_tcp(host, int(port))
    except (OSError, ValueError) as exc:
        return Attempt(absent=True, hint=f"no process listens at {endpoint} ({exc})")
    # Each daemon has a token of its own. This one may have ended meanwhile, and any user may have got its port.
    now = look_up(places)
    if now is None or now[1] != token:
        sock.close()
        return Attempt(absent=True, hint=f"the daemon at {endpoint} has gone")
    return Attempt(sock=sock, token=token)


def _attempt_at(path: str) -> Attempt:
    try:
        return Attempt(sock=connector.open_stream(path))
    except FileNotFoundError:
        return Attempt(absent=True, hint=f"{path} does not exist")
    except ConnectionRefusedError as exc:
        if other := socket_trust.objection_to_kind(path):
            raise Unreachable(other) from exc
        return Attempt(absent=True, hint=f"no process listens at {path}")
    except BlockingIOError:
        return Attempt(hint=f"the daemon at {path} does not accept connections: its queue is full")
    except OSError as exc:
        what = exc.filename or path
        raise Unreachable(f"{what}: {exc.strerror or exc}. `hearth doctor` looks for the cause.") from exc


def _chance() -> float:
    """Return a number of 0 to 1 by chance; the `random` module costs more than a bridge has."""
    return os.urandom(1)[0] / 255


# --- the registry entry


def look_up(places: Places) -> tuple[str, str] | None:
    """Return the daemon's endpoint, and the token that it wants over TCP, by its entry.

    None if no daemon holds the lock, after removing the entry that it left behind.
    """
    found = _read(places.registry)
    return found if found and _is_held(places) else None


def _is_held(places: Places) -> bool:
    """Return whether a daemon holds its lock; if not, remove its registry entry under that lock."""
    lock = Lock(places.daemon_lock)
    try:
        if not lock.acquire(blocking=False):
            return True
        remove_file(places.registry)
    except FileAccessError:
        # The folder cannot be used: the start of a daemon reports that.
        return False
    finally:
        lock.release()
    return False


def _read(path: str) -> tuple[str, str] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            state = os.fstat(descriptor)
            if not connector.is_own_user(state.st_uid):
                return None
            if state.st_mode & _TYPE_BITS != _REGULAR:
                return None
            values = jsonlite.read(os.read(descriptor, _SIZE_LIMIT_BYTES).strip())
        finally:
            os.close(descriptor)
    except (OSError, FrameError):
        # Absent, or no entry: nothing is known.
        return None
    endpoint, token = values.get("endpoint"), values.get("token", "")
    return (endpoint, token) if isinstance(endpoint, str) and isinstance(token, str) else None
