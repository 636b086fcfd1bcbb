"""`hearth install`, for the service manager of this system: each has a module with `install` and `uninstall`."""

import sys
from types import ModuleType

from hearth.errors import HearthError
from hearth.host.keg import lasting
from hearth.host.written_files import Outcome


def install(python: str = sys.executable, *, enable: bool = True, dry_run: bool = False) -> Outcome:
    """Have the service manager hold the socket. Doing it again changes nothing. Raises HearthError."""
    outcome: Outcome = _manager().install(lasting(python), enable=enable, dry_run=dry_run)
    return outcome


def uninstall(*, dry_run: bool = False) -> Outcome:
    """Undo `install`. Doing it again changes nothing. Raises HearthError."""
    outcome: Outcome = _manager().uninstall(dry_run=dry_run)
    return outcome


def _manager() -> ModuleType:
    if sys.platform == "linux":
        from hearth.host import install_systemd

        return install_systemd
    if sys.platform == "darwin":
        from hearth.host import install_launchd

        return install_launchd
    raise HearthError(
        "`hearth install` knows systemd and launchd, and this system has neither. Nothing need be installed:"
        " the bridge starts the daemon when it is needed"
    )
