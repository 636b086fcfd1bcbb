"""Text of systemd's units: their names, how they are filled in, and which of them belong to a daemon.

Pure: text in, text out. `host.install.systemd_user` and `systemd_system` put them in place.
"""

import os
from typing import NamedTuple

from hearth import paths
from hearth.errors import HearthError
from hearth.host.install import service_files

SOCKET_UNIT = "mcp.socket"
SERVICE_UNIT = "mcp.service"
UNIT_NAMES = (SOCKET_UNIT, SERVICE_UNIT)
# A port for HTTP, which a person may also enable.
HTTP_UNIT = "mcp-http.socket"
# One instance for each profile but the default one.
PROFILE_UNIT_NAMES = ("mcp@.socket", "mcp@.service")
# For the system's own systemd, one instance for each user, by uid; the templates are in a subfolder.
SYSTEM_UNIT_NAMES = ("system/mcp-user@.socket", "system/mcp-user@.service")
PLACEHOLDER = "@PYTHON@"
# Stands beside drop-ins of the user's own, and is read before drop-ins without a number.
PATH_DROP_IN = "10-hearth-path.conf"


class Units(NamedTuple):
    """Two units of one daemon, the files that they come from, and the systemd that runs them."""

    socket: str
    service: str
    files: tuple[str, str]
    # Options of `systemctl` that select that systemd.
    scope: tuple[str, ...] = ("--user",)
    # Further units of the same service, which are off unless a person enables them.
    more: tuple[str, ...] = ()

    def systemctl(self, *arguments: str) -> str:
        """Return a command for a person to type."""
        return " ".join(("systemctl", *self.scope, *arguments))

    @property
    def path_drop_in(self) -> str:
        """Path of the drop-in with the PATH of this daemon, below the folder of the units."""
        return f"{self.service}.d/{PATH_DROP_IN}"

    @property
    def enabled_link(self) -> str:
        """Link that `systemctl enable` makes, because of WantedBy= in the socket unit."""
        return enabled(self.socket)


def enabled(socket: str) -> str:
    """Return the link that `systemctl enable` makes for a socket unit."""
    return f"sockets.target.wants/{socket}"


def of_profile(profile: str) -> Units:
    """Return the user's own units for a profile's daemon; for `*` a pattern of all profiles but the default one."""
    if profile == paths.DEFAULT_PROFILE:
        return Units(SOCKET_UNIT, SERVICE_UNIT, UNIT_NAMES, more=(HTTP_UNIT,))
    return Units(f"mcp@{profile}.socket", f"mcp@{profile}.service", PROFILE_UNIT_NAMES)


def of_user(uid: int | str) -> Units:
    """Return the units of the system's systemd for one user's daemon; for `*` a pattern of all users."""
    names = (f"mcp-user@{uid}.socket", f"mcp-user@{uid}.service")
    return Units(*names, SYSTEM_UNIT_NAMES, scope=())


# systemd refuses an executable whose path contains one of these, even quoted.
_REFUSED = frozenset("'\"\\")


def exec_word(path: str) -> str:
    """Return a path as the first word of an Exec line, in the syntax of systemd.service(5) and systemd.syntax(7).

    Raises HearthError for a path that is not allowed there.
    """
    if not os.path.isabs(path) or not path.isprintable() or _REFUSED & set(path):
        raise HearthError(f"systemd cannot start {path!r}: install Hearth in a folder with a plainer name")
    # The colon, which keeps `$` as it is, belongs inside the quotes.
    word = ":" + path.replace("%", "%%")
    return f'"{word}"' if " " in path or ";" in path else word


def render(template: str, python: str) -> str:
    """Return a unit file: the template with the interpreter of this installation in it."""
    return template.replace(PLACEHOLDER, exec_word(python))


def render_path(path: str) -> str:
    """Return a drop-in that gives a service this PATH. Its first line shows whether the file was changed later."""
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
    """Tell whether a drop-in is as `render_path` has made it, in this version or another."""
    head, _, body = text.partition("\n")
    return head == f"# {service_files.MARK} ({paths.digest(body)})."
