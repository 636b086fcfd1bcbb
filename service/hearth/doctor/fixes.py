"""What `hearth doctor --fix` does: a table of deeds, each safe to do twice, each on what is Hearth's and this user's.

A deed says beforehand what it will change, looks again before it changes it, and raises HearthError when it cannot.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hearth import registry
from hearth.control_client import running_daemon
from hearth.control_client.connection import ControlConnection
from hearth.doctor import bridge_entries
from hearth.doctor.context import CheckContext
from hearth.doctor.socket_file import is_listened_to
from hearth.errors import HearthError
from hearth.findings import Deed, Finding, Mend, mends
from hearth.host import install
from hearth.host.byte_code import compile_package
from hearth.host.folders import refusal
from hearth.host.linux.systemctl import Manager
from hearth.host.locks import Lock
from hearth.ops import shutdown
from hearth.secrets import http_token

# As long as `hearth restart` waits for the daemon's end.
RENEW_SECONDS = 60.0


class Work(NamedTuple):
    """One deed: what it would do, as a sentence without its subject; and doing it."""

    prospect: Callable[[CheckContext, str], str]
    act: Callable[[CheckContext, str], None]


class Outcome(NamedTuple):
    """What came of a deed: `error` is empty when it was done; `done` is false in a dry run."""

    mend: Mend
    ids: Sequence[str]
    prospect: str
    done: bool = False
    error: str = ""


def plan(patient: CheckContext, findings: Sequence[Finding]) -> list[Outcome]:
    """What would be done, in the order in which it is done: what others build on comes first."""
    wanted = sorted(mends(findings).items(), key=lambda item: _ORDER.index(item[0].deed))
    return [
        Outcome(mend, sorted({finding.id for finding in of}), WORKS[mend.deed].prospect(patient, mend.target))
        for mend, of in wanted
    ]


def perform(patient: CheckContext, planned: Outcome) -> Outcome:
    """Do it, and say what came of it."""
    try:
        WORKS[planned.mend.deed].act(patient, planned.mend.target)
    except HearthError as error:
        return planned._replace(error=str(error))
    return planned._replace(done=True)


# --- closing what is open to others


def _wanted_mode(mode: int) -> int:
    return 0o700 if stat.S_ISDIR(mode) else 0o600


def _prospect_of_closing(patient: CheckContext, path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return f"close {path} to others"
    return f"close {path} to others: mode {stat.S_IMODE(mode):04o} becomes {_wanted_mode(mode):04o}"


def _close(patient: CheckContext, path: str) -> None:
    if sys.platform == "win32":
        raise HearthError("modes are POSIX's")
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode) or found.st_uid != os.getuid():
            raise HearthError(f"{path} is a link, or somebody else's, and is left as it is")
        os.chmod(path, _wanted_mode(found.st_mode))
    except OSError as exc:
        raise refusal("close", path, exc) from exc


def _rotate(patient: CheckContext, path: str) -> None:
    """Closing it would leave a token in force that others may have read."""
    try:
        usable = http_token.read()
    except HearthError:
        usable = None
    if usable is None:
        http_token.rotate()


# --- what a daemon that was killed has left


def _forget(patient: CheckContext, path: str) -> None:
    places = patient.places
    with _held(places.daemon_lock):
        entry = registry.read(places)
        if entry and registry.is_alive(entry):
            raise HearthError(f"pid {entry.pid} has come up meanwhile, and {path} is its own")
        registry.remove(places)


def _sweep(patient: CheckContext, path: str) -> None:
    with _held(patient.places.start_lock), _held(patient.places.daemon_lock):
        try:
            is_ours = stat.S_ISSOCK(os.lstat(path).st_mode)
        except FileNotFoundError:
            return
        if not is_ours or is_listened_to(path) is not False:
            raise HearthError(f"somebody listens at {path} by now, and it is left as it is")
        try:
            os.unlink(path)
        except OSError as exc:
            raise refusal("remove", path, exc) from exc


@contextlib.contextmanager
def _held(path: str) -> Iterator[None]:
    """The lock of that file, while something is done. Raises HearthError when another has it."""
    lock = Lock(path)
    if not lock.acquire(blocking=False):
        raise HearthError(f"another process holds {path}: a daemon starts or runs; look again")
    try:
        yield
    finally:
        lock.release()


# --- the installation


def _compile(patient: CheckContext, target: str) -> None:
    if not compile_package(sys.executable):
        raise HearthError("the package's folder cannot be written to: compile as whoever installed it")


def _prospect_of_installing(patient: CheckContext, target: str) -> str:
    try:
        outcome = install.install(enable=_is_enabled(patient), dry_run=True, profile=patient.places.profile)
    except HearthError as error:
        return f"install the units anew, which will not work: {error}"
    files = ", ".join(os.path.join(outcome.folder, name) for name in outcome.plan.write)
    path = f"; the service's PATH becomes {outcome.search_path}" if outcome.search_path else ""
    return f"write {files or 'the units'} anew{path}"


def _install(patient: CheckContext, target: str) -> None:
    install.install(enable=_is_enabled(patient), profile=patient.places.profile)


def _is_enabled(patient: CheckContext) -> bool:
    """Somebody who has switched the socket off meant it."""
    return patient.manager().socket.get("UnitFileState", "enabled").startswith("enabled")


def _reload(patient: CheckContext, target: str) -> None:
    _manager().do("daemon-reload")


def _start(patient: CheckContext, socket: str) -> None:
    manager = _manager()
    manager.do("daemon-reload")
    # A start limit that was hit before the mending must not stand in the way after it.
    manager.attempt("reset-failed", socket, socket.replace(".socket", ".service"))
    manager.do("start", socket)


def _manager() -> Manager:
    from hearth.host.install import systemd_user

    manager = Manager(systemd_user.units_folder())
    if manager.problem:
        raise HearthError(manager.problem)
    return manager


def _renew(patient: CheckContext, target: str) -> None:
    lit = running_daemon.find(patient.places)
    if lit is None:
        return
    with ControlConnection(lit.endpoint, lit.pid, lit.token) as control:
        shutdown.end(control, lit, restart=True, seconds=RENEW_SECONDS)


def _start_prospect(patient: CheckContext, socket: str) -> str:
    state = patient.manager().socket.get("ActiveState") or "not started"
    return f"have systemd forget failures and start {socket}: {state} becomes active"


WORKS: dict[Deed, Work] = {
    "close": Work(_prospect_of_closing, _close),
    "rotate": Work(lambda _, path: f"put a new token into {path}: who has the former one needs the new one", _rotate),
    "forget": Work(lambda _, path: f"remove {path}, which names a daemon that is gone", _forget),
    "sweep": Work(lambda _, path: f"remove {path}, at which nobody listens", _sweep),
    "compile": Work(lambda _, target: "write the byte code of the bridge and the daemon", _compile),
    "install": Work(_prospect_of_installing, _install),
    "reload": Work(lambda _, target: "have systemd read the unit files again", _reload),
    "start": Work(_start_prospect, _start),
    "renew": Work(lambda _, target: "restart the daemon: calls in flight finish, clients stay connected", _renew),
    "repoint": Work(
        lambda _, entry: bridge_entries.prospect(entry),
        lambda patient, entry: bridge_entries.repoint(entry, patient.places),
    ),
}
_ORDER = tuple(WORKS)
