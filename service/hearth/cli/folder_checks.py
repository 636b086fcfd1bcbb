"""Doctor's look at the folders of socket, locks and registry: the rule of `host.folders`, told instead of enforced;
and at the one for what is remembered.

Changes nothing: what the daemon would make or close by itself at its start is only said here.
"""

import os
import shutil
import stat
import sys

from hearth.cli.findings import Finding
from hearth.paths import Places, state_dir

_CHECK = "runtime folder"
_STATE_CHECK = "state folder"
# A few files of what servers offer, and a log that has just begun.
LEAST_FREE_BYTES = 1 << 20


def check_runtime(places: Places) -> list[Finding]:
    """Every folder that must be private, and the one above them in which they are made."""
    folders = places.private_folders()
    variable = _check_variable(os.environ.get("XDG_RUNTIME_DIR", ""), places)
    if variable and variable.state == "broken":
        return [variable]
    notes = [variable] if variable else []
    problems: dict[str, Finding] = {}
    for folder in folders:
        # What lies inside a folder that is broken is broken for the same reason.
        if os.path.dirname(folder) not in problems and (found := _check_folder(folder)):
            problems[folder] = found
    if problems:
        return [*notes, *problems.values()]
    if not os.path.lexists(folders[0]):
        return [*notes, Finding(_CHECK, "ok", f"{folders[0]} will be made at the first start")]
    return [*notes, Finding(_CHECK, "ok", folders[0])]


def check_state(places: Places) -> list[Finding]:
    """Whether anything can be remembered. The daemon serves without it: servers start anew each time to be listed."""
    folder = state_dir()
    above = _nearest(folder)
    if not os.path.isdir(above) or not os.access(above, os.W_OK | os.X_OK):
        message = f"{folder} cannot be written to: no log, no secret and nothing of what servers offer is kept"
        return [Finding(_STATE_CHECK, "broken", message, f"Make {above} a folder of yours that can be written to.")]
    if shutil.disk_usage(above).free < LEAST_FREE_BYTES:
        message = f"the disk of {folder} is full: no log, no secret and nothing of what servers offer is kept"
        return [Finding(_STATE_CHECK, "broken", message, "Free some space.")]
    return [Finding(_STATE_CHECK, "ok", folder if above == folder else f"{folder} will be made at the first start")]


def _check_variable(named: str, places: Places) -> Finding | None:
    """XDG_RUNTIME_DIR may be left from another login, as after `su`; None when there is nothing to say."""
    if sys.platform == "win32" or not named or not places.folder.startswith(named):
        return None
    try:
        owner = os.stat(named).st_uid
    except OSError:
        # Missing or out of reach: the look at the folders below it finds the reason.
        return None
    return foreign_variable(named, owner, os.getuid(), os.access(named, os.W_OK | os.X_OK))


def foreign_variable(named: str, owner: int, me: int, writable: bool) -> Finding | None:
    """What to say of XDG_RUNTIME_DIR by the owner of its folder. Pure."""
    if owner == me:
        return None
    message = f"XDG_RUNTIME_DIR points to somebody else's folder: {named} belongs to user {owner}, and you are {me}"
    fix = f"Set it to /run/user/{me}, or unset it; `su -` or `machinectl shell` sets it right."
    return Finding(_CHECK, "note" if writable else "broken", message, fix)


def _check_folder(folder: str) -> Finding | None:
    try:
        found = os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return _check_ancestor(folder)
    except OSError as error:
        return Finding(_CHECK, "broken", f"{folder}: {error.strerror}", "Make it yours, with mode 0700.")
    if sys.platform != "win32" and (unfit := unfitness(folder, found, os.getuid())):
        return unfit
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding(_CHECK, "broken", f"{folder} cannot be written to", f"chmod 700 {folder}")
    return None


def unfitness(folder: str, found: os.stat_result, me: int) -> Finding | None:
    """Why a folder with this lstat is not private to this user; None when it is. Pure."""
    if stat.S_ISLNK(found.st_mode):
        message = f"{folder} is a symbolic link, which is not followed here"
        return Finding(_CHECK, "broken", message, f"Remove the link: rm {folder}")
    if not stat.S_ISDIR(found.st_mode):
        return Finding(_CHECK, "broken", f"{folder} is not a folder", f"Move it away: mv {folder} {folder}.old")
    if found.st_uid != me:
        fix = "Have it removed, or point XDG_RUNTIME_DIR to a folder of yours."
        return Finding(_CHECK, "broken", f"{folder} belongs to user {found.st_uid}, not to you", fix)
    if stat.S_IMODE(found.st_mode) & 0o077:
        message = f"{folder} is open to others (mode {stat.S_IMODE(found.st_mode):04o})"
        return Finding(_CHECK, "broken", message, f"chmod 700 {folder}")
    return None


def _check_ancestor(folder: str) -> Finding | None:
    """Whether the folder can be made: everything missing above it is made too, so the nearest that exists decides."""
    above = _nearest(os.path.dirname(folder))
    if not os.path.isdir(above):
        fix = f"Move {above} away, or point XDG_RUNTIME_DIR elsewhere."
        return Finding(_CHECK, "broken", f"{folder} cannot be made: {above} is not a folder", fix)
    if not os.access(above, os.W_OK | os.X_OK):
        fix = "Point XDG_RUNTIME_DIR to a folder of yours, or unset it."
        return Finding(_CHECK, "broken", f"{folder} cannot be made: {above} cannot be written to", fix)
    return None


def _nearest(folder: str) -> str:
    """The folder, or the first above it that is there."""
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder
