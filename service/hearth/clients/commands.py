"""The command that starts a bridge, as it is written into a client's config.

Entries name the launcher where there is one, else the interpreter and the bridge's file. The console script is of no
use: pip and uv strip interpreter flags from scripts. Clients hand on so little of the environment that everything must
stand in the arguments.
"""

import os
import sys
from collections.abc import Sequence

import hearth
from hearth.clients import launcher
from hearth.host.homebrew_paths import lasting
from hearth.paths import Places


def bridge_file() -> str:
    """The file that the interpreter is given."""
    return lasting(os.path.join(os.path.dirname(os.path.abspath(hearth.__file__)), "bridge", "main.py"))


def bridge_command(places: Places, extra: Sequence[str] = ()) -> list[str]:
    """What starts a bridge to this daemon."""
    # sys.executable is the venv's own link; resolved, it would be an interpreter that does not know the venv.
    return [lasting(sys.executable), "-I", "-S", bridge_file(), *places.bridge_arguments(), *extra]


def entry_command(places: Places, launcher_path: str | None, extra: Sequence[str] = ()) -> list[str]:
    """Return the command for a client's entry: the launcher's where there is one, else `bridge_command`."""
    if launcher_path is None:
        return bridge_command(places, extra)
    return [launcher_path, *places.bridge_arguments(), *extra]


def printed_command(places: Places, extra: Sequence[str] = ()) -> list[str]:
    """Return the command for an entry that a person pastes: nothing is written for it."""
    return entry_command(places, launcher.present(), extra)
