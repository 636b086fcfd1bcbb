"""The systemd user units as text: what they are called, how they are filled in.

Pure: text in, text out. `host.install_systemd` puts them in place.
"""

import os

from hearth.errors import HearthError

SOCKET_UNIT = "mcp.socket"
SERVICE_UNIT = "mcp.service"
UNIT_NAMES = (SOCKET_UNIT, SERVICE_UNIT)
# What `systemctl enable` makes, because of WantedBy= in the socket unit.
ENABLED_LINK = f"sockets.target.wants/{SOCKET_UNIT}"
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
