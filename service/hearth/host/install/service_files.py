"""The files by which a service manager learns of Hearth: which of them may be touched, and how they are put in place.

Knows neither their content nor any service manager. The templates they are made of lie in the installed package, or in
the checkout that it is run from.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hearth.errors import HearthError
from hearth.host import private_files
from hearth.host.folders import refusal

# A file with these words is ours to overwrite and to remove; any other belongs to somebody else.
MARK = "Written by `hearth install`"
# launchd refuses an agent that others may write, whatever the mask of the shell is; systemd warns of one.
_MODE = 0o644


@dataclass(frozen=True)
class Plan:
    """What is to be done with which of the files, by their names."""

    write: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    # Not written by Hearth: neither overwritten nor removed.
    foreign: tuple[str, ...] = ()


@dataclass
class Outcome:
    """What was done, or in a dry run would be; `commands` are left for the person to type."""

    folder: str
    plan: Plan
    # The service manager's name.
    manager: str
    compiled: bool = False
    enabled: bool = False
    # Why the service manager was not asked; None when it was.
    manager_problem: str | None = None
    commands: list[str] = field(default_factory=list)
    # What is so from now on, in a sentence, where it is not that the manager listens.
    effect: str | None = None
    # The PATH on which the servers' programs will be found, where that was written down too.
    search_path: str | None = None
    # Folders of this shell's PATH that were not taken into it, each with the reason.
    left_out: tuple[tuple[str, str], ...] = ()
    # What else the person should know, in sentences.
    notes: list[str] = field(default_factory=list)


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


def templates_folder(kind: str, name: str) -> str:
    """Where the templates of this kind are, `name` among them. Raises HearthError when they are missing."""
    import hearth

    package = os.path.dirname(os.path.abspath(hearth.__file__))
    packaged = os.path.join(package, "data", kind)
    checkout = os.path.join(os.path.dirname(os.path.dirname(package)), kind)
    for folder in (packaged, checkout):
        if os.path.isfile(os.path.join(folder, name)):
            return folder
    raise HearthError(f"{name} is missing from {packaged}; install mcp-hearth again")


def template(kind: str, name: str) -> str:
    """The text of one template. Raises HearthError when it is missing."""
    with open(os.path.join(templates_folder(kind, name), name), encoding="utf-8") as file:
        return file.read()


def read(folder: str, names: Iterable[str]) -> dict[str, str | None]:
    """What is there now. A link (masked, or linked by hand) counts as somebody else's file: as empty."""
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
    """Put the files in place, each whole or not at all."""
    try:
        for name, text in rendered.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _put(path, text)
    except OSError as exc:
        raise refusal("write into", folder, exc) from exc


def _put(path: str, text: str) -> None:
    # A crash in the middle must not leave half a file; service managers ignore a name that ends like this.
    temporary = private_files.beside(path)
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, _MODE)
        private_files.replace(temporary, path)
    except OSError:
        private_files.remove(temporary)
        raise


def remove(folder: str, names: Iterable[str]) -> None:
    """Take the files away; what is not there is no error."""
    for name in names:
        try:
            os.unlink(os.path.join(folder, name))
        except FileNotFoundError:
            pass
        except OSError as exc:
            raise refusal("remove", os.path.join(folder, name), exc) from exc
