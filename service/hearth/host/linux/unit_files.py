"""Unit files in a folder of systemd's, the user's or the system's: which are there, which are to be written.

Also the drop-in with the PATH that is kept, and the links by which sockets are enabled. Knows neither systemctl nor a
person.
"""

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase

from hearth.errors import HearthError
from hearth.host.install import service_files
from hearth.host.install.service_files import Outcome, Plan
from hearth.host.linux import units
from hearth.host.linux.units import Units
from hearth.host.posix.shell_path import Search


def names(ours: Units) -> tuple[str, ...]:
    """The unit files by the names that they have where systemd looks for them."""
    return tuple(map(os.path.basename, (*ours.files, *ours.more)))


def rendered(python: str, ours: Units) -> dict[str, str]:
    """The text of each unit file for this interpreter."""
    files = (*ours.files, *ours.more)
    texts = [units.render(service_files.template("units", name), python) for name in files]
    return dict(zip(names(ours), texts, strict=True))


def is_packaged(folder: str, ours: Units, python: str) -> bool:
    """Whether a package has brought these units, for this very interpreter: then copies would only grow old."""
    present = service_files.read(folder, names(ours))
    service = present[names(ours)[1]] or ""
    return all(present.values()) and f"ExecStart={units.exec_word(python)} " in service


def plan(
    folder: str, ours: Units, wanted: dict[str, str], drop_ins: Iterable[str], search: Search
) -> tuple[Plan, dict[str, str]]:
    """What to do with the unit files and with the PATH in each of the drop-ins, and the texts.

    `wanted` is empty where a package has brought the units: copies from before would go before them. A PATH that
    somebody has changed is `foreign`, and no obstacle. Raises HearthError for a unit file of somebody else's.
    """
    present = service_files.read(folder, names(ours))
    files = service_files.plan_install(wanted, present) if wanted else service_files.plan_uninstall(present)
    if files.foreign:
        raise HearthError(_in_the_way(folder, ours, files.foreign[0]))
    kept = read_paths(folder, drop_ins)
    texts = {name: units.render_path(search.path) for name in kept} if search.path else {}
    path = service_files.plan_install(texts, kept) if texts else service_files.plan_uninstall(kept)
    joined = Plan(files.write + path.write, files.keep + path.keep, files.remove + path.remove, path.foreign)
    return joined, {**wanted, **texts}


def read_paths(folder: str, drop_ins: Iterable[str]) -> dict[str, str | None]:
    """The drop-ins with a PATH that are there. One that somebody has changed counts as theirs: as empty."""
    present = service_files.read(folder, drop_ins)
    return {name: "" if text is not None and not units.is_untouched(text) else text for name, text in present.items()}


def describe_search(outcome: Outcome, search: Search) -> None:
    """Say which PATH will be in force, as far as it is known here."""
    for name in outcome.plan.foreign:
        path = os.path.join(outcome.folder, name)
        outcome.notes.append(f"{path} was changed by hand and is left as it is: the PATH in it holds.")
    if not outcome.plan.foreign:
        outcome.search_path = search.path or None
        outcome.left_out = search.left_out


def matching(folder: str, pattern: str) -> list[str]:
    """The files of one subfolder, or of one in each subfolder, whose relative path matches, in order."""
    found = []
    for root, _, files in os.walk(folder):
        relative = (os.path.relpath(os.path.join(root, name), folder) for name in files)
        found += [name for name in relative if fnmatchcase(name, pattern)]
    return sorted(found)


def remove(folder: str, gone: Iterable[str]) -> None:
    """Take files away, and the folders that are empty without them."""
    removed = list(gone)
    if not removed:
        return
    service_files.remove(folder, removed)
    emptied = {os.path.dirname(os.path.join(folder, name)) for name in removed}
    for each in (*sorted(emptied - {folder}), folder, os.path.dirname(folder)):
        try:
            os.rmdir(each)
        except OSError:
            # Absent, or not empty because it holds what is not ours.
            continue


def _in_the_way(folder: str, ours: Units, name: str) -> str:
    path = os.path.join(folder, name)
    if os.path.realpath(path) == os.devnull:
        return f"{name} is masked; type `{ours.systemctl('unmask', name)}`, then `hearth install` again"
    return f"{path} was not written by Hearth and is left as it is; move it away, then try again"
