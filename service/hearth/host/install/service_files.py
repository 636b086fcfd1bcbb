"""Files that tell a service manager about Hearth: which of them may be changed, and how they are put in place.

This module knows neither their content nor any service manager. The templates are in the installed package, or in the
checkout that it is run from. Also compiles the package for the interpreter that a service manager is going to start.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hearth.errors import HearthError
from hearth.host import private_files
from hearth.host.folders import refusal, remove_file

# A file with these words is ours to overwrite and to remove; any other file belongs to a person or another program.
MARK = "Written by `hearth install`"
# launchd refuses an agent that others may write, whatever the shell's umask; systemd warns about one.
_MODE = 0o644
# Compiling a few dozen files takes a second; a cold home folder on the network has needed ten.
_COMPILE_LIMIT_SECONDS = 120
_NOT_FOUND, _NOT_WRITABLE = 2, 1
_COMPILE_CODE = f"""
import importlib.util, sys
try:
    found = importlib.util.find_spec("hearth.daemon")
except ImportError:
    found = None
if found is None:
    sys.exit({_NOT_FOUND})
import compileall, hearth, os
from importlib.metadata import distribution
# A package manager's files are its own, and came with their byte code.
if (distribution("mcp-hearth").read_text("INSTALLER") or "").strip() == "dpkg":
    sys.exit(0)
sys.exit(0 if compileall.compile_dir(os.path.dirname(hearth.__file__), quiet=2) else {_NOT_WRITABLE})
"""


@dataclass(frozen=True)
class Plan:
    """Plan of the changes to the files, by their names."""

    write: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    # Files that Hearth did not write: neither overwritten nor removed.
    foreign: tuple[str, ...] = ()


@dataclass
class Outcome:
    """Result of an installation, or of a dry run; `commands` are left for the person to type."""

    folder: str
    plan: Plan
    # The service manager's name.
    manager: str
    compiled: bool = False
    enabled: bool = False
    # Reason why the service manager was not used; None when it was.
    manager_problem: str | None = None
    commands: list[str] = field(default_factory=list)
    # Effect of the installation as a sentence, where it is not that the manager listens.
    effect: str | None = None
    # PATH on which the servers' programs will be found, where it was stored too.
    search_path: str | None = None
    # Folders of this shell's PATH that were left out of it, each with the reason.
    left_out: tuple[tuple[str, str], ...] = ()
    # Further notes for the person, as sentences.
    notes: list[str] = field(default_factory=list)


def plan_install(wanted: Mapping[str, str], present: Mapping[str, str | None]) -> Plan:
    """Plan an installation from the wanted and the present texts; None means absent."""
    foreign = [name for name in wanted if not _is_ours(present.get(name))]
    keep = [name for name, text in wanted.items() if present.get(name) == text]
    write = [name for name in wanted if name not in foreign and name not in keep]
    return Plan(write=tuple(write), keep=tuple(keep), foreign=tuple(foreign))


def plan_uninstall(present: Mapping[str, str | None]) -> Plan:
    """Plan the removal of every file that is ours."""
    foreign = [name for name, text in present.items() if not _is_ours(text)]
    remove = [name for name, text in present.items() if text is not None and name not in foreign]
    return Plan(remove=tuple(remove), foreign=tuple(foreign))


def _is_ours(text: str | None) -> bool:
    return text is None or MARK in text


def templates_folder(kind: str, name: str) -> str:
    """Return the folder of the templates of this kind, which has `name`. Raises HearthError when it is missing."""
    import hearth

    package = os.path.dirname(os.path.abspath(hearth.__file__))
    packaged = os.path.join(package, "data", kind)
    checkout = os.path.join(os.path.dirname(os.path.dirname(package)), kind)
    for folder in (packaged, checkout):
        if os.path.isfile(os.path.join(folder, name)):
            return folder
    raise HearthError(f"{name} is missing from {packaged}; install mcp-hearth again")


def template(kind: str, name: str) -> str:
    """Return the text of one template. Raises HearthError when it is missing."""
    with open(os.path.join(templates_folder(kind, name), name), encoding="utf-8") as file:
        return file.read()


def fill(template: str, values: Mapping[str, str], reader: str) -> str:
    """Replace each @NAME@ in an XML template by its value. Raises HearthError for a value that XML cannot hold."""
    import re
    from html import escape

    for value in values.values():
        if not value.isprintable():
            raise HearthError(f"{reader} cannot be told of {value!r}: use a folder with a plainer name")
    return re.sub("@([A-Z]+)@", lambda found: escape(values[found[1]], quote=False), template)


def read(folder: str, names: Iterable[str]) -> dict[str, str | None]:
    """Read the present files. A link (masked, or linked by hand) counts as a foreign file: its text is empty."""
    present: dict[str, str | None] = {}
    for name in names:
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


def write(folder: str, rendered: Mapping[str, str]) -> None:
    """Write the files, each atomically."""
    try:
        for name, text in rendered.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            # A crash in the middle must not leave half a file; service managers ignore a name with such an ending.
            private_files.write(path, text.encode(), mode=_MODE)
    except OSError as exc:
        raise refusal("write into", folder, exc) from exc


def remove(folder: str, names: Iterable[str]) -> None:
    """Remove the files; a missing file is no error."""
    for name in names:
        remove_file(os.path.join(folder, name))


def compile_package(python: str) -> bool:
    """Write byte code beside the package, for a fast start of the bridge; return False if the folder is not writable.

    Raises HearthError when the interpreter, isolated as service managers start it, does not find the package.
    """
    import subprocess

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
            f"`{python} -I` does not find Hearth, and it would be started that way. An installation by"
            " `pip install --user` is not enough: use `uv tool install`, `pipx install` or a venv"
        )
    return done.returncode == 0
