"""Fixes of `hearth doctor --fix`, as a table: safe to apply twice, and only to files of Hearth and of this user.

A fix says in advance what it will change, checks again before the change, and raises HearthError when it fails.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hearth import registry
from hearth.control_client import running_daemon
from hearth.doctor import clients
from hearth.doctor.context import CheckContext
from hearth.doctor.endpoints import is_listened_to
from hearth.errors import HearthError
from hearth.findings import Finding, FixName, FixRequest, requested_fixes
from hearth.host import install, system
from hearth.host.folders import refusal
from hearth.host.install.service_files import Outcome, compile_package
from hearth.host.linux.units import Manager
from hearth.host.locks import Lock
from hearth.secrets import http_token

# The same time as `hearth restart` waits for the daemon to stop.
RENEW_SECONDS = 60.0


class Fix(NamedTuple):
    """Fix: `prospect` returns what it would do, as a sentence without its subject; `apply` does it."""

    prospect: Callable[[CheckContext, str], str]
    apply: Callable[[CheckContext, str], object]


class FixResult(NamedTuple):
    """Result of a fix: `error` is empty on success; `done` is false in a dry run."""

    request: FixRequest
    ids: Sequence[str]
    prospect: str
    done: bool = False
    error: str = ""


def plan(context: CheckContext, findings: Sequence[Finding]) -> list[FixResult]:
    """Return the fixes to apply, in their order: a fix comes after those that it depends on."""
    wanted = sorted(requested_fixes(findings).items(), key=lambda item: _ORDER.index(item[0].name))
    return [
        FixResult(
            request, sorted({finding.id for finding in of}), FIXES[request.name].prospect(context, request.target)
        )
        for request, of in wanted
    ]


def perform(context: CheckContext, planned: FixResult) -> FixResult:
    """Apply a fix, and return its result."""
    try:
        FIXES[planned.request.name].apply(context, planned.request.target)
    except HearthError as error:
        return planned._replace(error=str(error))
    return planned._replace(done=True)


# --- modes of files and folders


def _wanted_mode(mode: int) -> int:
    return 0o700 if stat.S_ISDIR(mode) else 0o600


def _prospect_of_closing(context: CheckContext, path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return f"close {path} to others"
    return f"close {path} to others: mode {stat.S_IMODE(mode):04o} becomes {_wanted_mode(mode):04o}"


def _close(context: CheckContext, path: str) -> None:
    if system.is_windows():
        raise HearthError("modes are POSIX's")
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode) or found.st_uid != system.user_id():
            raise HearthError(f"{path} is a link, or somebody else's, and is left as it is")
        os.chmod(path, _wanted_mode(found.st_mode))
    except OSError as exc:
        raise refusal("close", path, exc) from exc


def _rotate(context: CheckContext, path: str) -> None:
    """Replace the token: a new mode alone would keep a token in force that others may have read."""
    try:
        usable = http_token.read()
    except HearthError:
        usable = None
    if usable is None:
        http_token.rotate()


# --- files of a killed daemon


def _forget(context: CheckContext, path: str) -> None:
    places = context.places
    with _held(places.daemon_lock):
        entry = registry.read(places)
        if entry and registry.is_alive(entry):
            raise HearthError(f"pid {entry.pid} has come up meanwhile, and {path} is its own")
        registry.remove(places)


def _sweep(context: CheckContext, path: str) -> None:
    with _held(context.places.start_lock), _held(context.places.daemon_lock):
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
    """Hold the lock of that file. Raises HearthError when another process holds it."""
    lock = Lock(path)
    if not lock.acquire(blocking=False):
        raise HearthError(f"another process holds {path}: a daemon starts or runs; look again")
    try:
        yield
    finally:
        lock.release()


# --- the installation


def _compile(context: CheckContext, target: str) -> None:
    if not compile_package(sys.executable):
        raise HearthError("the package's folder cannot be written to: compile as whoever installed it")


def _install(context: CheckContext, dry_run: bool = False) -> Outcome:
    # A unit that the user disabled stays disabled.
    enable = context.manager().socket.get("UnitFileState", "enabled").startswith("enabled")
    return install.install(enable=enable, dry_run=dry_run, profile=context.places.profile)


def _prospect_of_installing(context: CheckContext, target: str) -> str:
    try:
        outcome = _install(context, dry_run=True)
    except HearthError as error:
        return f"install the units anew, which will not work: {error}"
    files = ", ".join(os.path.join(outcome.folder, name) for name in outcome.plan.write)
    path = f"; the service's PATH becomes {outcome.search_path}" if outcome.search_path else ""
    return f"write {files or 'the units'} anew{path}"


def _start(context: CheckContext, socket: str) -> None:
    manager = _manager()
    manager.do("daemon-reload")
    # A start limit that was hit before the fix must not prevent the start after it.
    manager.attempt("reset-failed", socket, socket.replace(".socket", ".service"))
    manager.do("start", socket)


def _manager() -> Manager:
    from hearth.host.install import systemd_user

    manager = Manager(systemd_user.units_folder())
    if manager.problem:
        raise HearthError(manager.problem)
    return manager


def _renew(context: CheckContext, target: str) -> None:
    daemon = running_daemon.find(context.places)
    if daemon is None:
        return
    with daemon.control() as control:
        daemon.end(control, restart=True, seconds=RENEW_SECONDS)


def _start_prospect(context: CheckContext, socket: str) -> str:
    state = context.manager().socket.get("ActiveState") or "not started"
    return f"have systemd forget failures and start {socket}: {state} becomes active"


FIXES: dict[FixName, Fix] = {
    "close": Fix(_prospect_of_closing, _close),
    "rotate": Fix(lambda _, path: f"put a new token into {path}: who has the former one needs the new one", _rotate),
    "forget": Fix(lambda _, path: f"remove {path}, which names a daemon that is gone", _forget),
    "sweep": Fix(lambda _, path: f"remove {path}, at which nobody listens", _sweep),
    "compile": Fix(lambda _, target: "write the byte code of the bridge and the daemon", _compile),
    "install": Fix(_prospect_of_installing, lambda context, _: _install(context)),
    "reload": Fix(
        lambda _, target: "have systemd read the unit files again", lambda _, target: _manager().do("daemon-reload")
    ),
    "start": Fix(_start_prospect, _start),
    "renew": Fix(lambda _, target: "restart the daemon: calls in flight finish, clients stay connected", _renew),
    "repoint": Fix(
        lambda _, entry: clients.repoint_description(entry),
        lambda context, entry: clients.repoint(entry, context.places),
    ),
}
_ORDER = tuple(FIXES)
