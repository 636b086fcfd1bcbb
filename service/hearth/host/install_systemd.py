"""Putting the systemd user units in place and taking them away: the hands of `host.units`.

Knows nothing of how a person is told about it. `Outcome` says what was done and what is left to type.
"""

import os

from hearth import paths
from hearth.errors import HearthError
from hearth.host import units, written_files
from hearth.host.byte_code import compile_package
from hearth.host.systemctl import UserManager
from hearth.host.written_files import Outcome

MANAGER = "systemd"
ENABLED_LINK = units.of_profile(paths.DEFAULT_PROFILE).enabled_link
COMMANDS_TO_INSTALL = ("systemctl --user daemon-reload", f"systemctl --user enable --now {units.SOCKET_UNIT}")
COMMANDS_TO_UNINSTALL = (f"systemctl --user stop {units.SOCKET_UNIT}", "systemctl --user daemon-reload")


def install(python: str, *, enable: bool, dry_run: bool) -> Outcome:
    """Put the units in place and have systemd listen. Doing it again changes nothing.

    Raises HearthError when a file of somebody else is in the way, and when systemd refuses.
    """
    folder = units_folder()
    wanted = rendered_units(python)
    plan = written_files.plan_install(wanted, written_files.read(folder, units.UNIT_NAMES))
    if plan.foreign:
        raise HearthError(_in_the_way(folder, plan.foreign[0]))
    manager = UserManager(folder)
    outcome = Outcome(folder, plan, MANAGER, manager_problem=manager.problem)
    if manager.problem is not None:
        outcome.commands = list(COMMANDS_TO_INSTALL)
    elif not enable:
        outcome.commands = list(COMMANDS_TO_INSTALL[1:])
    if dry_run:
        return outcome
    outcome.compiled = compile_package(python)
    written_files.write(folder, {name: wanted[name] for name in plan.write})
    if manager.problem is None:
        manager.do("daemon-reload")
        if enable:
            _listen(manager)
            outcome.enabled = True
    return outcome


def uninstall(*, dry_run: bool) -> Outcome:
    """Stop listening, stop the daemon, remove the units. Doing it again changes nothing.

    Raises HearthError when systemd refuses, and when a file cannot be removed.
    """
    folder = units_folder()
    plan = written_files.plan_uninstall(written_files.read(folder, units.UNIT_NAMES))
    manager = UserManager(folder)
    outcome = Outcome(folder, plan, MANAGER, manager_problem=manager.problem)
    if manager.problem is not None and plan.remove:
        outcome.commands = list(COMMANDS_TO_UNINSTALL)
    if dry_run or not plan.remove:
        return outcome
    if manager.problem is None:
        manager.do("disable", "--now", *plan.remove)
        manager.attempt("reset-failed", *plan.remove)
    _remove(folder, plan.remove)
    if manager.problem is None:
        manager.do("daemon-reload")
    return outcome


def _listen(manager: UserManager) -> None:
    # A start limit that was hit before the mending must not stand in the way after it.
    manager.attempt("reset-failed", *units.UNIT_NAMES)
    manager.do("enable", "--now", units.SOCKET_UNIT)


def rendered_units(python: str) -> dict[str, str]:
    """The text of each unit file for this interpreter."""
    return {name: units.render(written_files.template("units", name), python) for name in units.UNIT_NAMES}


def units_folder() -> str:
    """Where the user's own units are."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    base = named if named.startswith("/") else os.path.join(paths.home_dir(), ".config")
    return os.path.join(base, "systemd", "user")


def _in_the_way(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    if os.path.realpath(path) == os.devnull:
        return f"{name} is masked; type `systemctl --user unmask {name}`, then `hearth install` again"
    return f"{path} was not written by Hearth and is left as it is; move it away, then try again"


def _remove(folder: str, names: tuple[str, ...]) -> None:
    link = (ENABLED_LINK,) if units.SOCKET_UNIT in names else ()
    written_files.remove(folder, (*link, *names))
    wants = os.path.dirname(os.path.join(folder, ENABLED_LINK))
    for emptied in (wants, folder, os.path.dirname(folder)):
        try:
            os.rmdir(emptied)
        except OSError:
            # Absent, or not empty because it holds what is not ours.
            continue
