"""Launcher: a short script that clients' entries name and that stays valid when Python or the package is upgraded.

The script's first line is the interpreter with `-IS`, because the kernel passes only one argument. pip and uv rewrite
the first line of scripts in a wheel, so `hearth connect` writes the script itself; the Debian package ships one. Where
an interpreter's path does not fit into a first line, entries name the interpreter and the bridge's file instead
(`bridge_command`).
"""

import glob
import os
import re
import sys
from collections.abc import Sequence

import hearth
from hearth import places
from hearth.errors import HearthError
from hearth.host import private_files, system
from hearth.host.folders import make_private
from hearth.host.lasting_paths import lasting
from hearth.paths import Places

NAME = "hearth-bridge"
# Linux before 5.1 truncates a first line after 127 bytes; later versions and other systems read more.
_FIRST_LINE_BYTES = 127
_FLAGS = "-IS"
# A package that ships a launcher replaces this sentence.
AUTHOR = "Written by `hearth connect`; `hearth doctor --fix` writes it again."
_SIZE_LIMIT_BYTES = 16 * 1024
_TEXT = """\
#!{python} {flags}
# Starts Hearth's bridge for MCP clients. {author}
import os
import sys

# The environment of the interpreter first: another version of Python has its packages in another folder there.
environment = os.path.dirname(os.path.dirname(sys.executable))
version = "python%d.%d" % sys.version_info[:2]
for packages in (os.path.join(environment, "lib", version, "site-packages"), {packages!r}):
    if os.path.isdir(os.path.join(packages, "hearth", "bridge")):
        break
else:
    # A hook that is left over after an uninstallation must not block its client's tools.
    if sys.argv[1:2] == ["hook"]:
        sys.exit(0)
    sys.exit("hearth: there is no Hearth in %s: install it again, then type `hearth doctor --fix`" % packages)
# At the end, where nothing of the standard library can be shadowed.
sys.path.append(packages)

from hearth.bridge import main

sys.exit(main(sys.argv[1:]))
"""
_BRIDGE = ("hearth", "bridge")
_PACKAGES = re.compile(r'"site-packages"\), (?P<quote>[\'"])(?P<folder>.*)(?P=quote)\):$', re.MULTILINE)


# --- pure


def fits(python: str) -> bool:
    """Tell whether an interpreter's path fits into the first line of a script."""
    is_one_word = not any(character.isspace() for character in python)
    return is_one_word and len(os.fsencode(f"#!{python} {_FLAGS}\n")) <= _FIRST_LINE_BYTES


def text(python: str, packages: str) -> str:
    """Return the script for an interpreter and the folder that contains the package `hearth`."""
    return _TEXT.format(python=python, flags=_FLAGS, author=AUTHOR, packages=packages)


# --- this machine


def prepared(write: bool) -> str | None:
    """Return the launcher's path for entries; None where no launcher is possible. With `write`, write it first."""
    if shipped := _shipped():
        return shipped
    if system.is_windows() or not fits(lasting(sys.executable)):
        return None
    try:
        return _written() if write else own_path()
    except (OSError, HearthError):
        # The home is read-only, or may not hold programs: entries then name the interpreter.
        return None


def present() -> str | None:
    """Return the launcher's path if it exists and starts this installation; None otherwise."""
    return _shipped() or (own_path() if _is_current(own_path()) else None)


def own_path() -> str:
    """Return the path at which `hearth connect` writes the launcher."""
    return os.path.join(places.state_dir(), NAME)


def missing(path: str) -> str:
    """Return the missing file that a launcher needs; "" if none is missing, or if the file is no launcher."""
    try:
        with open(path, encoding="utf-8") as file:
            script = file.read(_SIZE_LIMIT_BYTES)
    except (OSError, ValueError):
        return "" if os.path.exists(path) else path
    python = script.partition("\n")[0].removeprefix("#!").removesuffix(f" {_FLAGS}")
    if not os.access(python, os.X_OK):
        return python
    named = _PACKAGES.search(script)
    environment = os.path.dirname(os.path.dirname(python))
    folders = glob.glob(os.path.join(glob.escape(environment), "lib", "python3*", "site-packages", *_BRIDGE))
    if named is None or folders or os.path.isdir(os.path.join(named["folder"], *_BRIDGE)):
        return ""
    return os.path.join(named["folder"], *_BRIDGE)


def _text() -> str:
    package = os.path.dirname(os.path.abspath(hearth.__file__))
    return text(lasting(sys.executable), lasting(os.path.dirname(package)))


def _shipped() -> str | None:
    """Return the path of the launcher that a package ships beside its interpreter's folder."""
    path = os.path.join(os.path.dirname(os.path.dirname(lasting(sys.executable))), NAME)
    return path if os.access(path, os.X_OK) and os.path.isfile(path) else None


def _is_current(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_SIZE_LIMIT_BYTES) == _text() and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _written() -> str | None:
    path = own_path()
    if _is_current(path):
        return path
    make_private(os.path.dirname(path))
    private_files.write(path, _text().encode(), mode=0o700)
    return path if os.access(path, os.X_OK) else None


# --- commands that start a bridge


def bridge_file() -> str:
    """Return the path of the bridge's main file."""
    return lasting(os.path.join(os.path.dirname(os.path.abspath(hearth.__file__)), "bridge", "main.py"))


def bridge_command(places: Places, extra: Sequence[str] = ()) -> list[str]:
    """Return the command that starts a bridge to this daemon."""
    # sys.executable is the venv's own link. The link's target is an interpreter that does not know the venv.
    return [lasting(sys.executable), "-I", "-S", bridge_file(), *places.bridge_arguments(), *extra]


def entry_command(places: Places, launcher_path: str | None, extra: Sequence[str] = ()) -> list[str]:
    """Return the command for a client's entry: the launcher where one exists, else `bridge_command`."""
    if launcher_path is None:
        return bridge_command(places, extra)
    return [launcher_path, *places.bridge_arguments(), *extra]


def printed_command(places: Places, extra: Sequence[str] = ()) -> list[str]:
    """Return the command for an entry that a person pastes. Writes no launcher."""
    return entry_command(places, present(), extra)


def client_config(places: Places, servers: Sequence[str], name: str, extra: Sequence[str]) -> dict[str, object]:
    """Return the `mcpServers` object: one entry for all servers, or one for each named server."""
    offers = {server: ["--server", server, *extra] for server in servers} or {name: list(extra)}
    entries: dict[str, object] = {}
    for key, options in offers.items():
        command, *arguments = printed_command(places, options)
        entries[key] = {"command": command, "args": arguments}
    return {"mcpServers": entries}
