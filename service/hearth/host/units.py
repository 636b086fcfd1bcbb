"""The systemd user units as text: what they are called, how they are filled in, which files may be touched.

Pure: text in, text and decisions out. `host.install` carries the decisions out.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from hearth.errors import HearthError

SOCKET_UNIT = "mcp.socket"
SERVICE_UNIT = "mcp.service"
UNIT_NAMES = (SOCKET_UNIT, SERVICE_UNIT)
# What `systemctl enable` makes, because of WantedBy= in the socket unit.
ENABLED_LINK = f"sockets.target.wants/{SOCKET_UNIT}"
# A unit file with these words is ours to overwrite and to remove; any other belongs to somebody else.
MARK = "Written by `hearth install`"
PLACEHOLDER = "@PYTHON@"

COMMANDS_TO_INSTALL = ("systemctl --user daemon-reload", f"systemctl --user enable --now {SOCKET_UNIT}")
COMMANDS_TO_UNINSTALL = (f"systemctl --user stop {SOCKET_UNIT}", "systemctl --user daemon-reload")

# systemd refuses an executable whose path has one of these, however it is quoted.
_REFUSED = frozenset("'\"\\")


def exec_word(path: str) -> str:
    """A path as the first word of an Exec line, as systemd.service(5) and systemd.syntax(7) read it.

    Raises HearthError for a path that cannot stand there.
    """
    if not os.path.isabs(path) or not path.isprintable() or _REFUSED & set(path):
        raise HearthError(f"systemd cannot start {path!r}: install Hearth in a folder with a plainer name")
    # The colon, which keeps `$` as it is, belongs inside the quotes.
    word = ":" + path.replace("%", "%%")
    return f'"{word}"' if " " in path or ";" in path else word


def render(template: str, python: str) -> str:
    """A unit file: the template with the interpreter of this installation in it."""
    return template.replace(PLACEHOLDER, exec_word(python))


@dataclass(frozen=True)
class Plan:
    """What is to be done with which of the unit files, by their names."""

    write: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    # Not written by Hearth: neither overwritten nor removed.
    foreign: tuple[str, ...] = ()


def plan_install(wanted: Mapping[str, str], present: Mapping[str, str | None]) -> Plan:
    """Compare what should be there with what is; None means absent."""
    foreign = [name for name in wanted if not _is_ours(present.get(name))]
    keep = [name for name, text in wanted.items() if present.get(name) == text]
    write = [name for name in wanted if name not in foreign and name not in keep]
    return Plan(write=tuple(write), keep=tuple(keep), foreign=tuple(foreign))


def plan_uninstall(present: Mapping[str, str | None]) -> Plan:
    """Everything that is ours goes."""
    foreign = [name for name, text in present.items() if not _is_ours(text)]
    remove = [name for name, text in present.items() if text is not None and name not in foreign]
    return Plan(remove=tuple(remove), foreign=tuple(foreign))


def _is_ours(text: str | None) -> bool:
    return text is None or MARK in text
