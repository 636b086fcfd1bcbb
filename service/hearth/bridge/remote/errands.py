"""Who we are to the server: the headers that were given, their references filled in, or the login that is stored.

Logins and references need more than the standard library, and are seldom needed: a process of its own
(`hearth.upstreams.http.errand`) looks them up, refreshes tokens, and tells by a pipe. Nothing of it is ever logged.
"""

import os
import sys
from _thread import allocate_lock
from time import monotonic, time

from hearth.bridge.jsonlite import read
from hearth.errors import HearthError, Unreachable
from hearth.paths import oauth_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hearth.bridge.remote.target import Target

# A keyring may ask a person to unlock it, and an authorization server may take its time.
ERRAND_SECONDS = 60.0
# More than the file of all logins has (upstreams/oauth/store.py).
_LOGINS_LIMIT_BYTES = 4 * 1024 * 1024
AUTHORIZATION = "authorization"
UNAUTHORIZED, FORBIDDEN = 401, 403
_MARK = b"errand "
# What begins a reference (hearth.secrets.references), or stands for itself there: `$${`.
_REFERENCE = "${"
# What the pipe of every system holds before anybody reads; more than any server takes as headers.
_TEXTS_LIMIT_BYTES = 16 * 1024
# Between two errands in a row that were in vain, doubled each time. Whoever has mended the cause does not wait longer.
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 16.0


class Pace:
    """How often something is looked up in vain: twice, then after pauses that grow."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """There is reason to hope."""
        self._times = 0
        self._due = 0.0
        self._problem = ""

    def look(self, errand: "Callable[[], bool]") -> bool:
        """Whether that brings anything; not asked if it is too early. Raises Unreachable, also again if it is."""
        if monotonic() < self._due:
            if self._problem:
                raise Unreachable(self._problem)
            return False
        try:
            found = errand()
        except Unreachable as exc:
            self._note(str(exc))
            raise
        if found:
            self.begin_anew()
        else:
            self._note("")
        return found

    def _note(self, problem: str) -> None:
        pause = _FIRST_PAUSE_SECONDS * 2.0 ** min(self._times - 1, 16) if self._times else 0.0
        self._due = monotonic() + min(pause, _LONGEST_PAUSE_SECONDS)
        self._times += 1
        self._problem = problem


class Identity:
    """The headers of every request."""

    def __init__(self, target: "Target", given: list[tuple[str, str]]) -> None:
        self._target = target
        self._given = given
        self._lock = allocate_lock()
        self._filled: dict[str, str] | None = None
        self._has_references = any(_REFERENCE in value for _, value in given)
        self._has_own = any(name.lower() == AUTHORIZATION for name, _ in given)
        self._filling = Pace()
        # By the status that was the reason: a tool that is forbidden says nothing of a token that has ended.
        self._logging_in = {status: Pace() for status in (UNAUTHORIZED, FORBIDDEN)}
        self._logins_seen: tuple[int, ...] | None = None
        # What the login has given, until when by the clock of the wall, and whether there is any.
        self._bearer: str | None = None
        self._until: float | None = None
        self._is_known = False

    def headers(self) -> dict[str, str]:
        """What to send. Raises Unreachable for a reference that leads nowhere, or a login that cannot be had."""
        with self._lock:
            if self._filled is None:
                self._filling.look(self._fill)
            if self._may_log_in and self._is_due():
                self._look_for_login(UNAUTHORIZED, [])
            filled = self._filled or {}
            return {**filled, "Authorization": self._bearer} if self._bearer else filled

    def refused(self, status: int, challenge: str | None, sent: dict[str, str]) -> bool:
        """The server refused a request with those headers; whether to ask once more. Raises Unreachable."""
        with self._lock:
            if status == UNAUTHORIZED and self._has_references and self._is_filled_otherwise(sent):
                return True
            if not self._may_log_in:
                return False
            former = sent.get("Authorization")
            if former == self._bearer:
                self._look_for_login(status, [str(status), challenge or "", _digest(former) if former else ""])
            return self._bearer is not None and self._bearer != former

    def _is_filled_otherwise(self, sent: dict[str, str]) -> bool:
        """Whether the references lead to something else by now: tokens are rotated. Looks unless somebody else did."""
        return self._differs(sent) or self._filling.look(lambda: self._fill() and self._differs(sent))

    def _differs(self, sent: dict[str, str]) -> bool:
        return any(sent.get(name) != value for name, value in (self._filled or {}).items())

    @property
    def _may_log_in(self) -> bool:
        return not self._has_own and self._target.socket is None

    def _is_due(self) -> bool:
        """Whether the login has to be asked for: nobody is where nobody ever logged in to such a host."""
        if not self._is_known:
            return _mentions(oauth_file(), self._target.authority)
        return self._until is not None and time() >= self._until

    def _look_for_login(self, status: int, refusal: list[str]) -> None:
        seen = _state(oauth_file())
        if seen != self._logins_seen:
            # Somebody may have logged in.
            self._logins_seen = seen
            for pace in self._logging_in.values():
                pace.begin_anew()
        self._logging_in[status].look(lambda: self._log_in(refusal))

    def _log_in(self, refusal: list[str]) -> bool:
        """Have it looked up; whether it is another one."""
        former, answer = self._bearer, run(["login", self._target.url, *refusal])
        self._is_known = True
        bearer, until = answer.get("authorization"), answer.get("until")
        self._bearer = bearer if isinstance(bearer, str) else None
        self._until = float(until) if isinstance(until, int | float) else None
        return self._bearer not in (None, former)

    def _fill(self) -> bool:
        """Fill in the references. Raises Unreachable."""
        texts = [value for _, value in self._given if _REFERENCE in value]
        if not texts:
            self._filled = dict(self._given)
            return True
        # As the errand reads it. No argument of a command has a zero byte in it, but might have half a character.
        written = "\0".join(texts).encode("utf-8", "surrogatepass")
        if len(written) > _TEXTS_LIMIT_BYTES:
            raise Unreachable(f"the values of --header with references are over {_TEXTS_LIMIT_BYTES} bytes long")
        found = run(["fill"], written).get("values")
        if not isinstance(found, list) or len(found) != len(texts):
            raise Unreachable("the references in --header could not be filled in")
        filled = iter(found)
        self._filled = {name: str(next(filled)) if _REFERENCE in value else value for name, value in self._given}
        return True


def _state(path: str) -> tuple[int, ...] | None:
    """What tells one state of a file from the next; None when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _mentions(path: str, host: str) -> bool:
    """Whether that file has anything about the host: most have not, and an errand takes a quarter of a second."""
    try:
        with open(path, "rb") as file:
            return host.lower().encode() in file.read(_LOGINS_LIMIT_BYTES).lower()
    except OSError:
        return False


def _digest(bearer: str) -> str:
    from hashlib import sha256

    return sha256(bearer.encode()).hexdigest()


def run(words: list[str], told: bytes = b"") -> "dict[str, Any]":
    """Have an errand run; what it brings. `told`: what is nobody else's to see. Raises Unreachable with its reason."""
    if sys.platform == "win32":
        from hearth.bridge.spawn_windows import WindowsChild as Child
    else:
        from hearth.bridge.spawn_posix import PosixChild as Child
    command = [sys.executable, "-I", "-m", "hearth.upstreams.http.errand", *words]
    try:
        child = Child(command, dict(os.environ), numbered=True, told=told)
    except OSError as exc:
        raise Unreachable(f"{sys.executable} cannot be run: {exc.strerror}; is Hearth still installed?") from exc
    try:
        ended = child.read(monotonic() + ERRAND_SECONDS)
        if not ended:
            child.kill()
    finally:
        child.close()
    for line in child.output.splitlines():
        if line.startswith(_MARK):
            return _brought(line.removeprefix(_MARK))
    if not ended:
        raise Unreachable(f"logins and references could not be looked up within {ERRAND_SECONDS:g} s")
    raise Unreachable("logins and references cannot be looked up: is Hearth's installation complete?")


def _brought(line: bytes) -> "dict[str, Any]":
    try:
        found = read(line)
    except HearthError as exc:
        raise Unreachable("logins and references could not be looked up") from exc
    if "error" in found:
        raise Unreachable(str(found["error"]))
    return found
