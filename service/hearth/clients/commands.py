"""The command that starts a bridge, as it is written into a client's config.

The interpreter and the bridge's file, not the console script: pip and uv strip interpreter flags from
scripts, and clients hand on so little of the environment that everything must stand in the arguments.
"""

import os
import sys
from collections.abc import Sequence

import hearth
from hearth.host.keg import lasting
from hearth.paths import Places


def bridge_file() -> str:
    """The file that the interpreter is given."""
    return lasting(os.path.join(os.path.dirname(os.path.abspath(hearth.__file__)), "bridge", "main.py"))


def bridge_command(places: Places, extra: Sequence[str] = ()) -> list[str]:
    """What starts a bridge to this daemon."""
    # sys.executable is the venv's own link; resolved, it would be an interpreter that does not know the venv.
    return [lasting(sys.executable), "-I", "-S", bridge_file(), *places.bridge_arguments(), *extra]
