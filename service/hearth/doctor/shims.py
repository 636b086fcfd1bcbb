"""Programs that version managers put in place of the real ones: which of them need the shell's variables. Pure."""

import os
from collections.abc import Mapping
from typing import NamedTuple


class Trouble(NamedTuple):
    """What may go wrong with a program where there is no shell, and what to write in its place."""

    message: str
    fix: str


class _Manager(NamedTuple):
    """A version manager: a part of the paths of its stand-ins, what its shell integration sets, how to ask it."""

    name: str
    part: str
    variables: tuple[str, ...]
    asked: str


_MANAGERS = (
    _Manager("fnm", "/fnm_multishells/", (), "fnm exec --using=default which {program}"),
    _Manager("asdf", "/.asdf/shims/", ("ASDF_DIR", "ASDF_DATA_DIR"), "asdf which {program}"),
    _Manager("mise", "/mise/shims/", ("MISE_DATA_DIR", "MISE_CONFIG_DIR"), "mise which {program}"),
    _Manager("pyenv", "/.pyenv/shims/", ("PYENV_ROOT", "PYENV_VERSION"), "pyenv which {program}"),
    _Manager("nodenv", "/.nodenv/shims/", ("NODENV_ROOT", "NODENV_VERSION"), "nodenv which {program}"),
    _Manager("rbenv", "/.rbenv/shims/", ("RBENV_ROOT", "RBENV_VERSION"), "rbenv which {program}"),
    _Manager("volta", "/.volta/bin/", ("VOLTA_HOME",), "volta which {program}"),
)


def trouble(path: str, service: Mapping[str, str], shell: Mapping[str, str]) -> Trouble | None:
    """What to say of a program that the service would start; None if it is no stand-in, or needs nothing of a shell."""
    manager = next((each for each in _MANAGERS if each.part in path.replace(os.sep, "/")), None)
    if manager is None:
        return None
    program = os.path.basename(path)
    fix = f"Write the whole path that `{manager.asked.format(program=program)}` prints into the config."
    if manager.name == "fnm":
        message = f"{path} lies in a folder that fnm makes for one shell and removes with it"
        return Trouble(message, fix)
    lacking = [name for name in manager.variables if shell.get(name) and shell[name] != service.get(name)]
    if not lacking:
        return None
    message = f"{path} is a stand-in of {manager.name}, which goes by {' and '.join(lacking)}: set in this shell only"
    return Trouble(message, fix)
