"""Changes of the config file: one at a time, from one valid config to another, with a notice to a running daemon.

Steps: read, edit, check the result with the config's own reader, check that no other program has saved the file
meanwhile, replace.
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

# Number of attempts when another program saves the file meanwhile.
_ATTEMPTS = 3
_WHAT = "a change of the config"

# Maps the file's bytes, None if there is no file, to the new ones.
Change = Callable[[bytes | None], bytes]


class Changed(NamedTuple):
    """Change of the file that was made, or would be."""

    path: str
    former: bytes | None
    new: bytes
    warnings: list[str]


def examined(path: str, data: bytes | None) -> Examination:
    """Return the examination of the file alone, without the environment. Raises ConfigError if it has problems."""
    found = Examination(path)
    if data is not None:
        found.read_file(data)
    found.finish()
    if found.problems:
        raise ConfigError(found.problems)
    return found


def change(places: Places, make: Change, dry_run: bool) -> Changed:
    """Change the file, or only return the change.

    Raises ConfigError if the file has problems, before or after the change, and Refused if another program keeps
    changing it, or below an agent under a policy; the file is then untouched.
    """
    path = places.config_file()
    if not dry_run:
        check(places)
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


def check(places: Places) -> None:
    """Raise Refused if this process may not change the config: below an agent under a policy."""
    running_daemon.check_change(places, _WHAT)


def replace(places: Places, former: bytes | None, new: bytes) -> Changed:
    """Replace the whole text of the file, which may have problems. Raises ConfigError, Refused."""
    path = places.config_file()
    found = examined(path, new)
    check(places)
    with edited_files.held(path):
        if not edited_files.replace(path, new, partial(_is_still, path, former)):
            raise Refused(f"{path} was changed by another program meanwhile; nothing was done")
    return Changed(path, former, new, found.warnings)


def _is_still(path: str, former: bytes | None) -> bool:
    return read_file(path, FILE_LIMIT_BYTES) == former


def tell_daemon(places: Places, at_start: bool = False) -> str:
    """Make a running daemon reload the file now, and return the result in a sentence; never raises.

    `at_start`: the change takes effect only when a daemon starts.
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
