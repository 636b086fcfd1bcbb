"""Changing the config file: one at a time, from what is right to what is right, and a running daemon is told.

Read, edit, have the result examined by the config's own reader, look that nobody has saved the file meanwhile, replace.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from hearth.config.layers import Examination
from hearth.config.loader import FILE_LIMIT_BYTES, read_file
from hearth.control_client import running_daemon
from hearth.errors import ConfigError, HearthError, Refused, Unreachable
from hearth.host import edited_files
from hearth.paths import Places

# How often an edit is begun anew when somebody else saves the file meanwhile.
_ATTEMPTS = 3

# The file's bytes, None if there is none, to the new ones.
Change = Callable[[bytes | None], bytes]


class Changed(NamedTuple):
    """A change that was made, or would be."""

    path: str
    former: bytes | None
    new: bytes
    warnings: list[str]


def examined(path: str, data: bytes | None) -> Examination:
    """Return what the file says; the environment has no part in it. Raises ConfigError if it has mistakes."""
    found = Examination(path)
    if data is not None:
        found.read_file(data)
    found.finish()
    if found.problems:
        raise ConfigError(found.problems)
    return found


def change(places: Places, make: Change, dry_run: bool) -> Changed:
    """Change the file, or only say how. Raises ConfigError for one with mistakes, before or after; it is untouched."""
    path = places.config_file()
    with edited_files.held(path):
        for _ in range(_ATTEMPTS):
            former = read_file(path, FILE_LIMIT_BYTES)
            examined(path, former)
            new = make(former)
            found = examined(path, new)
            is_former = partial(_is_still, path, former)
            if dry_run or edited_files.replace(path, new, is_former):
                return Changed(path, former, new, found.warnings)
    raise Refused(f"{path} is being changed by somebody else at the same time; nothing was done, try again")


def replace(places: Places, former: bytes | None, new: bytes) -> Changed:
    """Put a whole new text in the place of the file, which may have mistakes. Raises ConfigError, Refused."""
    path = places.config_file()
    found = examined(path, new)
    with edited_files.held(path):
        if not edited_files.replace(path, new, partial(_is_still, path, former)):
            raise Refused(f"{path} was changed by another program meanwhile; nothing was done")
    return Changed(path, former, new, found.warnings)


def _is_still(path: str, former: bytes | None) -> bool:
    return read_file(path, FILE_LIMIT_BYTES) == former


def tell_daemon(places: Places, at_start: bool = False) -> str:
    """Have a running daemon take the file up now, and say in a sentence what came of it; never raises.

    `at_start`: the change is one that a daemon takes up when it starts.
    """
    try:
        daemon = running_daemon.find(places)
        if daemon is None:
            return "No daemon runs; the next one reads it."
        with daemon.control() as control:
            taken, message = control.reload()
    except Unreachable as exc:
        return f"The daemon could not be told: {exc}."
    except HearthError as exc:
        return f"The daemon takes it up when it looks at the file again ({exc})."
    if not taken:
        return f"The running daemon refused it: {message}"
    if at_start:
        return "The running daemon keeps the former value until it is restarted: `hearth restart`."
    return "The running daemon has taken it up."
