"""Implementation of `hearth install`: one module for each service manager, with `install` and `uninstall`."""

import sys
from types import ModuleType

from hearth.errors import HearthError
from hearth.host.install.service_files import Outcome
from hearth.host.lasting_paths import Search, lasting, of_shell
from hearth.paths import DEFAULT_PROFILE


def install(
    python: str = sys.executable,
    *,
    enable: bool = True,
    dry_run: bool = False,
    profile: str = DEFAULT_PROFILE,
    search: Search | None = None,
    service: bool = False,
) -> Outcome:
    """Set up the service manager to hold the socket. Doing it again changes nothing. Raises HearthError.

    `search` is the PATH to keep for the servers' programs; without it, the PATH of the shell that this was typed in.
    `service` is for Windows, where a logon task is the usual way.
    """
    options: dict[str, object] = {"enable": enable, "dry_run": dry_run}
    if sys.platform == "win32":
        options["service"] = service
    elif service:
        raise HearthError("--service is for Windows; here `hearth install` sets up what starts the daemon without it")
    if sys.platform == "linux":
        options |= {"profile": profile, "search": of_shell() if search is None else search}
    elif profile != DEFAULT_PROFILE or search is not None:
        raise HearthError("only systemd has units for profiles, and a PATH that can be chosen")
    outcome: Outcome = _manager().install(lasting(python), **options)
    return outcome


def uninstall(*, dry_run: bool = False, profile: str = DEFAULT_PROFILE) -> Outcome:
    """Undo `install`. Doing it again changes nothing. Raises HearthError."""
    options: dict[str, object] = {"dry_run": dry_run}
    if sys.platform == "linux":
        options["profile"] = profile
    elif profile != DEFAULT_PROFILE:
        raise HearthError("only systemd has units for profiles")
    outcome: Outcome = _manager().uninstall(**options)
    return outcome


def _manager() -> ModuleType:
    if sys.platform == "linux":
        from hearth.host.install import systemd_user

        return systemd_user
    if sys.platform == "darwin":
        from hearth.host.install import launchd

        return launchd
    if sys.platform == "win32":
        from hearth.host.install import windows

        return windows
    raise HearthError(
        "`hearth install` knows systemd, launchd and Windows, and this system is none of them. Nothing need be"
        " installed: the bridge starts the daemon when it is needed"
    )
