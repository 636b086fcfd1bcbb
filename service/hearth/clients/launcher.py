"""The launcher: a short script that entries of clients name and that upgrades of Python and of the package leave valid.

Its first line is the interpreter with `-IS`, as the kernel passes one argument only. pip and uv rewrite the first line
of scripts in a wheel, so `hearth connect` writes the script itself; the Debian package ships one. Where the path of an
interpreter does not fit into a first line, entries name it and the bridge's file instead (`hearth.clients.launcher`).
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
from hearth.host.homebrew_paths import lasting
from hearth.paths import Places

NAME = "hearth-bridge"
# Linux before 5.1 cuts a first line behind 127 bytes; later versions and other systems read more.
_FIRST_LINE_BYTES = 127
_FLAGS = "-IS"
# A package that ships a launcher says so in the place of this sentence.
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
    sys.exit("hearth: there is no Hearth in %s: install it again, then type `hearth doctor --fix`" % packages)
# At the end, where nothing of the standard library can be shadowed.
sys.path.append(packages)

from hearth.bridge import main

sys.exit(main(sys.argv[1:]))
"""
_BRIDGE = ("hearth", "bridge")
_PACKAGES = re.compile(r'"site-packages"\), (?P<quote>[\'"])(?P<folder>.*)(?P=quote)\):$', re.MULTILINE)

__all__ = ["bridge_command", "bridge_file", "client_config"]


# --- pure


def fits(python: str) -> bool:
    """Return whether an interpreter can stand in the first line of a script."""
    is_one_word = not any(character.isspace() for character in python)
    return is_one_word and len(os.fsencode(f"#!{python} {_FLAGS}\n")) <= _FIRST_LINE_BYTES


def text(python: str, packages: str) -> str:
    """Return the script, for an interpreter and the folder that has the package `hearth` in it."""
    return _TEXT.format(python=python, flags=_FLAGS, author=AUTHOR, packages=packages)


# --- this machine


def prepared(write: bool) -> str | None:
    """Return the launcher's path for entries, written first where that is wanted; None where there can be none."""
    if shipped := _shipped():
        return shipped
    if system.is_windows() or not fits(lasting(sys.executable)):
        return None
    try:
        return _written() if write else own_path()
    except (OSError, HearthError):
        # A home that is read-only, or may hold no programs: entries then name the interpreter.
        return None


def present() -> str | None:
    """Return the launcher's path if it is there and starts this installation; None otherwise."""
    return _shipped() or (own_path() if _is_current(own_path()) else None)


def own_path() -> str:
    """Return where `hearth connect` writes the launcher."""
    return os.path.join(places.state_dir(), NAME)


def missing(path: str) -> str:
    """Return the file that a launcher needs and that is not there; an empty text if there is none, or no launcher."""
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
    """Return the launcher that a package brought beside its interpreter's folder."""
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
    temporary = private_files.beside(path)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(_text())
        os.replace(temporary, path)
    finally:
        private_files.remove(temporary)
    return path if os.access(path, os.X_OK) else None


# --- commands that start a bridge


def bridge_file() -> str:
    """Return the file that the interpreter is given."""
    return lasting(os.path.join(os.path.dirname(os.path.abspath(hearth.__file__)), "bridge", "main.py"))


def bridge_command(places: Places, extra: Sequence[str] = ()) -> list[str]:
    """Return what starts a bridge to this daemon."""
    # sys.executable is the venv's own link; resolved, it would be an interpreter that does not know the venv.
    return [lasting(sys.executable), "-I", "-S", bridge_file(), *places.bridge_arguments(), *extra]


def entry_command(places: Places, launcher_path: str | None, extra: Sequence[str] = ()) -> list[str]:
    """Return the command for a client's entry: the launcher's where there is one, else `bridge_command`."""
    if launcher_path is None:
        return bridge_command(places, extra)
    return [launcher_path, *places.bridge_arguments(), *extra]


def printed_command(places: Places, extra: Sequence[str] = ()) -> list[str]:
    """Return the command for an entry that a person pastes: nothing is written for it."""
    return entry_command(places, present(), extra)


def client_config(places: Places, servers: Sequence[str], name: str, extra: Sequence[str]) -> dict[str, object]:
    """Return the `mcpServers` object: one entry for everything, or one for each server that is named."""
    offers = {server: ["--server", server, *extra] for server in servers} or {name: list(extra)}
    entries: dict[str, object] = {}
    for key, options in offers.items():
        command, *arguments = printed_command(places, options)
        entries[key] = {"command": command, "args": arguments}
    return {"mcpServers": entries}
