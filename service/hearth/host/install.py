"""Putting the systemd user units in place and taking them away: the hands of `host.units`.

Knows nothing of how a person is told about it. `Outcome` says what was done and what is left to type.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from hearth import paths
from hearth.errors import HearthError
from hearth.host import units
from hearth.host.folders import refusal
from hearth.host.systemctl import UserManager
from hearth.host.units import Plan

# Compiling a few dozen files takes a second; a cold home on the network has needed ten.
_COMPILE_LIMIT_SECONDS = 120
_NOT_FOUND, _NOT_WRITABLE = 2, 1
_COMPILE_CODE = f"""
import importlib.util, sys
try:
    found = importlib.util.find_spec("hearth.server")
except ImportError:
    found = None
if found is None:
    sys.exit({_NOT_FOUND})
import compileall, hearth, os
sys.exit(0 if compileall.compile_dir(os.path.dirname(hearth.__file__), quiet=2) else {_NOT_WRITABLE})
"""


@dataclass
class Outcome:
    """What was done, or in a dry run would be; `commands` are left for the person to type."""

    folder: str
    plan: Plan
    compiled: bool = False
    enabled: bool = False
    # Why the service manager was not asked; None when it was.
    manager_problem: str | None = None
    commands: list[str] = field(default_factory=list)


def install(python: str = sys.executable, *, enable: bool = True, dry_run: bool = False) -> Outcome:
    """Put the units in place and have systemd listen. Doing it again changes nothing.

    Raises HearthError when a file of somebody else is in the way, and when systemd refuses.
    """
    _require_linux()
    folder = units_folder()
    wanted = rendered_units(python)
    plan = units.plan_install(wanted, read_units(folder))
    if plan.foreign:
        raise HearthError(_in_the_way(folder, plan.foreign[0]))
    manager = UserManager(folder)
    outcome = Outcome(folder, plan, manager_problem=manager.problem)
    if manager.problem is not None:
        outcome.commands = list(units.COMMANDS_TO_INSTALL)
    elif not enable:
        outcome.commands = list(units.COMMANDS_TO_INSTALL[1:])
    if dry_run:
        return outcome
    outcome.compiled = compile_package(python)
    _write(folder, {name: wanted[name] for name in plan.write})
    if manager.problem is None:
        manager.do("daemon-reload")
        if enable:
            _listen(manager)
            outcome.enabled = True
    return outcome


def uninstall(*, dry_run: bool = False) -> Outcome:
    """Stop listening, stop the daemon, remove the units. Doing it again changes nothing.

    Raises HearthError when systemd refuses, and when a file cannot be removed.
    """
    _require_linux()
    folder = units_folder()
    plan = units.plan_uninstall(read_units(folder))
    manager = UserManager(folder)
    outcome = Outcome(folder, plan, manager_problem=manager.problem)
    if manager.problem is not None and plan.remove:
        outcome.commands = list(units.COMMANDS_TO_UNINSTALL)
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


def templates_folder() -> str:
    """Where the templates are: in the installed package, or in the checkout that it is run from."""
    import hearth

    package = os.path.dirname(os.path.abspath(hearth.__file__))
    packaged = os.path.join(package, "data", "units")
    checkout = os.path.join(os.path.dirname(os.path.dirname(package)), "units")
    for folder in (packaged, checkout):
        if os.path.isfile(os.path.join(folder, units.SOCKET_UNIT)):
            return folder
    raise HearthError(f"the unit files are missing from {packaged}; install mcp-hearth again")


def rendered_units(python: str) -> dict[str, str]:
    """The text of each unit file for this interpreter."""
    folder = templates_folder()
    rendered = {}
    for name in units.UNIT_NAMES:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            rendered[name] = units.render(file.read(), python)
    return rendered


def units_folder() -> str:
    """Where the user's own units are."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    base = named if named.startswith("/") else os.path.join(paths.home_dir(), ".config")
    return os.path.join(base, "systemd", "user")


def read_units(folder: str) -> dict[str, str | None]:
    """What is there now. A link (masked, or linked by hand) counts as somebody else's file: as empty."""
    present: dict[str, str | None] = {}
    for name in units.UNIT_NAMES:
        path = os.path.join(folder, name)
        try:
            if os.path.islink(path):
                present[name] = ""
                continue
            with open(path, encoding="utf-8", errors="replace") as file:
                present[name] = file.read()
        except FileNotFoundError:
            present[name] = None
        except OSError as exc:
            raise refusal("read", path, exc) from exc
    return present


def compile_package(python: str) -> bool:
    """Write byte code beside the package, for the bridge's quick start; False where that is not allowed.

    Raises HearthError when the interpreter, isolated as the units start it, does not find the package.
    """
    try:
        done = subprocess.run(
            [python, "-I", "-c", _COMPILE_CODE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMPILE_LIMIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise HearthError(f"the interpreter {python} cannot be run: {exc}") from exc
    if done.returncode == _NOT_FOUND:
        raise HearthError(
            f"`{python} -I` does not find Hearth, and systemd would start it that way. An installation by"
            " `pip install --user` is not enough: use `uv tool install`, `pipx install` or a venv"
        )
    return done.returncode == 0


def _require_linux() -> None:
    if sys.platform != "linux":
        raise HearthError(
            "`hearth install` sets up systemd, which this system does not have. Nothing need be installed:"
            " the bridge starts the daemon when it is needed"
        )


def _in_the_way(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    if os.path.realpath(path) == os.devnull:
        return f"{name} is masked; type `systemctl --user unmask {name}`, then `hearth install` again"
    return f"{path} was not written by Hearth and is left as it is; move it away, then try again"


def _write(folder: str, rendered: Mapping[str, str]) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        for name, text in rendered.items():
            path = os.path.join(folder, name)
            # A crash in the middle must not leave half a unit; systemd ignores a name that ends like this.
            temporary = f"{path}.{os.getpid()}.new"
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(temporary, path)
    except OSError as exc:
        raise refusal("write the units into", folder, exc) from exc


def _remove(folder: str, names: tuple[str, ...]) -> None:
    link = (units.ENABLED_LINK,) if units.SOCKET_UNIT in names else ()
    for name in (*link, *names):
        try:
            os.unlink(os.path.join(folder, name))
        except FileNotFoundError:
            pass
        except OSError as exc:
            raise refusal("remove", os.path.join(folder, name), exc) from exc
    wants = os.path.dirname(os.path.join(folder, units.ENABLED_LINK))
    for emptied in (wants, folder, os.path.dirname(folder)):
        try:
            os.rmdir(emptied)
        except OSError:
            # Absent, or not empty because it holds what is not ours.
            continue
