"""Unit files in a folder of systemd, the user's or the system's: which exist, and which must be written.

Also the drop-in with the stored PATH, and the links that enable sockets. This module neither calls systemctl nor talks
to a person.
"""

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase

from hearth.errors import HearthError
from hearth.host.install import service_files
from hearth.host.install.service_files import Outcome, Plan
from hearth.host.lasting_paths import Search
from hearth.host.linux import units
from hearth.host.linux.units import Units


def names(ours: Units) -> tuple[str, ...]:
    """Return the names of the unit files in systemd's folder."""
    return tuple(map(os.path.basename, (*ours.files, *ours.more)))


def rendered(python: str, ours: Units) -> dict[str, str]:
    """Return the text of each unit file for this interpreter."""
    files = (*ours.files, *ours.more)
    texts = [units.render(service_files.template("units", name), python) for name in files]
    return dict(zip(names(ours), texts, strict=True))


def is_packaged(folder: str, ours: Units, python: str) -> bool:
    """Tell whether a package has installed these units for this very interpreter: copies would only become outdated."""
    present = service_files.read(folder, names(ours))
    service = present[names(ours)[1]] or ""
    return all(present.values()) and f"ExecStart={units.exec_word(python)} " in service


def plan(
    folder: str, ours: Units, wanted: dict[str, str], drop_ins: Iterable[str], search: Search
) -> tuple[Plan, dict[str, str]]:
    """Plan the changes to the unit files and to the PATH in each drop-in; return the plan and the texts.

    `wanted` is empty where a package has installed the units: older copies would take precedence over them. A PATH that
    a person has changed is `foreign`, and no obstacle. Raises HearthError for a unit file that Hearth did not write.
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
    """Read the drop-ins that set a PATH. One that a person has changed counts as foreign: its text is empty."""
    present = service_files.read(folder, drop_ins)
    return {name: "" if text is not None and not units.is_untouched(text) else text for name, text in present.items()}


def describe_search(outcome: Outcome, search: Search) -> None:
    """Add to the outcome which PATH will be in effect, as far as it is known here."""
    for name in outcome.plan.foreign:
        path = os.path.join(outcome.folder, name)
        outcome.notes.append(f"{path} was changed by hand and is left as it is: the PATH in it holds.")
    if not outcome.plan.foreign:
        outcome.search_path = search.path or None
        outcome.left_out = search.left_out


def matching(folder: str, pattern: str) -> list[str]:
    """List, in order, the files below the folder whose relative path matches the pattern."""
    found = []
    for root, _, files in os.walk(folder):
        relative = (os.path.relpath(os.path.join(root, name), folder) for name in files)
        found += [name for name in relative if fnmatchcase(name, pattern)]
    return sorted(found)


def remove(folder: str, gone: Iterable[str]) -> None:
    """Remove files, and the folders that are then empty."""
    removed = list(gone)
    if not removed:
        return
    service_files.remove(folder, removed)
    emptied = {os.path.dirname(os.path.join(folder, name)) for name in removed}
    for each in (*sorted(emptied - {folder}), folder, os.path.dirname(folder)):
        try:
            os.rmdir(each)
        except OSError:
            # Absent, or not empty because it holds files of others.
            continue


def _in_the_way(folder: str, ours: Units, name: str) -> str:
    path = os.path.join(folder, name)
    if os.path.realpath(path) == os.devnull:
        return f"{name} is masked; type `{ours.systemctl('unmask', name)}`, then `hearth install` again"
    return f"{path} was not written by Hearth and is left as it is; move it away, then try again"
