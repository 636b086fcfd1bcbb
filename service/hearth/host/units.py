"""systemd's units as text: what they are called, how they are filled in, which of them belong to a daemon.

Pure: text in, text out. `host.install_systemd` puts them in place.
"""

import os
from typing import NamedTuple

from hearth import paths
from hearth.errors import HearthError

SOCKET_UNIT = "mcp.socket"
SERVICE_UNIT = "mcp.service"
UNIT_NAMES = (SOCKET_UNIT, SERVICE_UNIT)
# One instance for each profile but the default one.
PROFILE_UNIT_NAMES = ("mcp@.socket", "mcp@.service")
# For the system's own systemd, one instance for each user, by number; where the templates are, below the others.
SYSTEM_UNIT_NAMES = ("system/mcp-user@.socket", "system/mcp-user@.service")
PLACEHOLDER = "@PYTHON@"


class Units(NamedTuple):
    """The two units of one daemon, the files that they are made of, and whose systemd runs them."""

    socket: str
    service: str
    files: tuple[str, str]
    # What stands behind `systemctl` to reach that systemd.
    scope: tuple[str, ...] = ("--user",)

    def systemctl(self, *arguments: str) -> str:
        """A command for a person to type."""
        return " ".join(("systemctl", *self.scope, *arguments))

    @property
    def enabled_link(self) -> str:
        """What `systemctl enable` makes, because of WantedBy= in the socket unit."""
        return f"sockets.target.wants/{self.socket}"


def of_profile(profile: str) -> Units:
    """The user's own units for a profile's daemon."""
    if profile == paths.DEFAULT_PROFILE:
        return Units(SOCKET_UNIT, SERVICE_UNIT, UNIT_NAMES)
    return Units(f"mcp@{profile}.socket", f"mcp@{profile}.service", PROFILE_UNIT_NAMES)


def of_user(uid: int) -> Units:
    """The units of the system's systemd for one user's daemon."""
    names = (f"mcp-user@{uid}.socket", f"mcp-user@{uid}.service")
    return Units(*names, SYSTEM_UNIT_NAMES, scope=())


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
