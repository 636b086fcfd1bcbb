"""systemd's units as text: what they are called, how they are filled in, which of them belong to a daemon.

Pure: text in, text out. `host.install_systemd` puts them in place.
"""

import os
from typing import NamedTuple

from hearth import paths
from hearth.errors import HearthError
from hearth.host.install import service_files

SOCKET_UNIT = "mcp.socket"
SERVICE_UNIT = "mcp.service"
UNIT_NAMES = (SOCKET_UNIT, SERVICE_UNIT)
# A port for HTTP, which a person may enable besides.
HTTP_UNIT = "mcp-http.socket"
# One instance for each profile but the default one.
PROFILE_UNIT_NAMES = ("mcp@.socket", "mcp@.service")
# For the system's own systemd, one instance for each user, by number; where the templates are, below the others.
SYSTEM_UNIT_NAMES = ("system/mcp-user@.socket", "system/mcp-user@.service")
PLACEHOLDER = "@PYTHON@"
# Beside drop-ins of the user's own, and read before those that have no number.
PATH_DROP_IN = "10-hearth-path.conf"


class Units(NamedTuple):
    """The two units of one daemon, the files that they are made of, and whose systemd runs them."""

    socket: str
    service: str
    files: tuple[str, str]
    # What stands behind `systemctl` to reach that systemd.
    scope: tuple[str, ...] = ("--user",)
    # Units that lead to the same service, and are off unless somebody enables them.
    more: tuple[str, ...] = ()

    def systemctl(self, *arguments: str) -> str:
        """A command for a person to type."""
        return " ".join(("systemctl", *self.scope, *arguments))

    @property
    def path_drop_in(self) -> str:
        """Where the PATH of this daemon is kept, below the folder of the units."""
        return f"{self.service}.d/{PATH_DROP_IN}"

    @property
    def enabled_link(self) -> str:
        """What `systemctl enable` makes, because of WantedBy= in the socket unit."""
        return enabled(self.socket)


def enabled(socket: str) -> str:
    """The link that `systemctl enable` makes for a socket unit."""
    return f"sockets.target.wants/{socket}"


def of_profile(profile: str) -> Units:
    """The user's own units for a profile's daemon; `*` for a pattern of all but the default one's."""
    if profile == paths.DEFAULT_PROFILE:
        return Units(SOCKET_UNIT, SERVICE_UNIT, UNIT_NAMES, more=(HTTP_UNIT,))
    return Units(f"mcp@{profile}.socket", f"mcp@{profile}.service", PROFILE_UNIT_NAMES)


def of_user(uid: int | str) -> Units:
    """The units of the system's systemd for one user's daemon; `*` for a pattern of all of them."""
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


def render_path(path: str) -> str:
    """A drop-in that gives a service this PATH. Its first line tells whether it was changed since."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    body = f"""\
# Where the programs of the MCP servers are looked for: the PATH of the shell in which it was typed, because npx and uvx
# are seldom on systemd's own. Installing again renews it, `hearth install --no-path` removes it. Once you have
# changed anything here the file is yours: it is neither renewed nor removed any more.

[Service]
Environment="PATH={escaped}"
"""
    return f"# {service_files.MARK} ({paths.digest(body)}).\n{body}"


def is_untouched(text: str) -> bool:
    """Whether a drop-in is as `render_path` has made it, in this version or another."""
    head, _, body = text.partition("\n")
    return head == f"# {service_files.MARK} ({paths.digest(body)})."
