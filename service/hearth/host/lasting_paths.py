"""Paths that last: of programs in versioned folders, and of the folders of a shell's PATH that a service manager keeps.

An upgrade removes a versioned folder and updates a link: Homebrew has a folder for each version of a program; the
Debian package has one named after its Python version.

Service managers have a PATH of their own, on which npx and uvx are seldom found. A shell's PATH has them, and many
folders that are gone tomorrow, or that others may write to. This module knows nothing of how the PATH is stored.
"""

import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from hearth.errors import HearthError
from hearth.host.macos.launchd import STANDARD_PATH

# Emptied at a restart or from time to time, and writable for every user.
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run/user")
# Folders that programs make for one shell, or for one run: those of fnm and npx.
_FLEETING_PARTS = ("fnm_multishells", "_npx")


class Search(NamedTuple):
    """Folders that are kept, and folders that are left out, each with the reason as the end of a sentence."""

    folders: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        """Value of PATH; empty when no folder is kept."""
        return ":".join(self.folders)


# Nothing is kept: the service manager's own PATH is in effect.
NOTHING = Search()


def lasting(path: str) -> str:
    """Return a path to the same file that stays valid after the next upgrade; a path without one is returned unchanged.

    PREFIX/Cellar/NAME/VERSION/REST becomes PREFIX/opt/NAME/REST, as long as that link leads to this version; and
    PREFIX/lib/python3.N/REST becomes PREFIX/lib/python3/REST.
    """
    return _by_any_python(_by_any_version(path))


def _by_any_python(path: str) -> str:
    prefix, found, numbered = path.partition("/lib/python3.")
    minor, _, rest = numbered.partition("/")
    link = f"{prefix}/lib/python3"
    if not found or not rest or not os.path.islink(link):
        return path
    return f"{link}/{rest}" if os.readlink(link) == f"python3.{minor}" else path


def _by_any_version(path: str) -> str:
    prefix, found, inside = path.partition("/Cellar/")
    name, _, versioned = inside.partition("/")
    version, _, rest = versioned.partition("/")
    if not found or not rest:
        return path
    link = os.path.join(prefix, "opt", name)
    keg = os.path.join(prefix, "Cellar", name, version)
    return os.path.join(link, rest) if os.path.realpath(link) == os.path.realpath(keg) else path


def of_shell(typed: str | None = None, temporary: Iterable[str] | None = None) -> Search:
    """Select the folders worth keeping of a PATH, by default this process's, with the standard folders at the end."""
    import tempfile

    gone_soon = [*_TEMPORARY, tempfile.gettempdir()] if temporary is None else [*temporary]
    kept: list[str] = []
    left_out: dict[str, str] = {}
    for entry in (os.environ.get("PATH", "") if typed is None else typed).split(":"):
        folder = _lasting(entry, gone_soon)
        reason = _objection(folder, gone_soon)
        if reason:
            left_out[entry] = reason
        else:
            kept.append(folder)
    standard = [folder for folder in STANDARD_PATH if os.path.isdir(folder)]
    return Search(tuple(dict.fromkeys([*kept, *standard])), tuple(left_out.items()))


def exactly(typed: str) -> Search:
    """Return a PATH exactly as a person gave it. Raises HearthError for a folder that must not be searched."""
    folders = [os.path.normpath(entry) for entry in typed.split(":") if entry]
    for folder in folders:
        reason = _plain_objection(folder)
        if reason:
            raise HearthError(f"{folder!r} cannot be searched for programs: it {reason}")
    return Search(tuple(dict.fromkeys(folders)))


def _lasting(entry: str, temporary: list[str]) -> str:
    """Return a lasting path of the folder: fnm gives each shell a link to the folder that has node in it."""
    if not entry.startswith("/"):
        return entry
    folder = os.path.normpath(entry)
    if _is_fleeting(folder, temporary):
        real = os.path.realpath(folder)
        return folder if _is_fleeting(real, temporary) else real
    return folder


def _is_fleeting(folder: str, temporary: list[str]) -> bool:
    below = any(folder == place or folder.startswith(place + "/") for place in temporary)
    return below or any(part in _FLEETING_PARTS for part in folder.split("/"))


def _objection(folder: str, temporary: list[str]) -> str | None:
    """Return why a folder of a shell's PATH is left out, as the end of a sentence about it; None if it is kept."""
    plain = _plain_objection(folder)
    if plain:
        return plain
    if _is_fleeting(folder, temporary):
        return "is temporary"
    above = os.path.dirname(folder)
    if os.path.isfile(os.path.join(above, "pyvenv.cfg")):
        return "belongs to a virtual environment"
    if os.path.basename(above) == "node_modules":
        return "belongs to one project"
    return None


def _plain_objection(folder: str) -> str | None:
    if not folder.startswith("/"):
        return "is not a whole path"
    if not folder.isprintable():
        return "has a name that cannot be written down"
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return "is not there"
    if not stat.S_ISDIR(mode):
        return "is not a folder"
    return "can be written to by everybody" if mode & stat.S_IWOTH else None
