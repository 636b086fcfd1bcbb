"""The unit files behind the manager's word: their text, and what this version would have written. Looks only."""

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from hearth.doctor.systemd_manager import Properties
from hearth.errors import HearthError
from hearth.host.homebrew_paths import lasting
from hearth.host.install import service_files, systemd_user
from hearth.host.linux import units

# Where packages put units for every user.
_PACKAGED = ("/usr/local/lib/systemd/user", "/usr/lib/systemd/user", "/lib/systemd/user", "/etc/systemd/user")
_FILE_LIMIT_BYTES = 1 << 20
_EXEC = "ExecStart="


class UnitFile(NamedTuple):
    """One unit's file. `wanted` is what this version would write for the same interpreter; empty if it is not ours."""

    path: str
    text: str
    wanted: str
    # The interpreter that it names, and whether that can be run and has Hearth beside it.
    python: str
    python_works: bool
    # A packaged unit of the same name, which this one hides.
    hides: str


def look_at(known: Properties) -> UnitFile:
    """The file that the manager has read, or would read."""
    path = known.get("FragmentPath", "")
    text = _read(path)
    ours = service_files.MARK in text and os.path.dirname(path) == systemd_user.units_folder()
    python = interpreter(text)
    return UnitFile(
        path=path,
        text=text,
        wanted=_wanted(os.path.basename(path), python) if ours else "",
        python=python,
        python_works=not python or os.access(python, os.X_OK),
        hides=_hidden(path) if ours else "",
    )


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_FILE_LIMIT_BYTES)
    except OSError:
        return ""


def _wanted(name: str, python: str) -> str:
    try:
        return units.render(service_files.template("units", name), python or sys.executable)
    except HearthError:
        return ""


def _hidden(path: str) -> str:
    others = (os.path.join(folder, os.path.basename(path)) for folder in _PACKAGED)
    return next((other for other in others if os.path.isfile(other)), "")


def interpreter(text: str) -> str:
    """The program of a unit's ExecStart= line, the inverse of `host.units.exec_word`; empty if there is none. Pure."""
    line = next((line for line in text.splitlines() if line.startswith(_EXEC)), "").removeprefix(_EXEC).strip()
    word = line[1:].partition('"')[0] if line.startswith('"') else line.partition(" ")[0]
    return word.lstrip(":@-+!").replace("%%", "%")


def mine() -> str:
    """The interpreter that `hearth install` of this installation would write."""
    return lasting(sys.executable)


def is_lingering(account: Mapping[str, str]) -> bool:
    """Whether this user's manager goes on without a login."""
    name = account.get("USER") or account.get("LOGNAME") or ""
    return os.path.exists(os.path.join("/var/lib/systemd/linger", name)) if name else False
