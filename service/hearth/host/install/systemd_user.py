"""Installer of the user's own systemd units, which `host.linux.units` describes.

This module does not talk to a person. `Outcome` says what was done and what is left to type. `systemd_system` installs
units of the system.
"""

import os

from hearth import paths
from hearth.errors import HearthError
from hearth.host.install import service_files
from hearth.host.install.service_files import Outcome, compile_package
from hearth.host.lasting_paths import Search
from hearth.host.linux import units

MANAGER = "systemd"
# Folder in which packages install units for all users.
PACKAGED = "/usr/lib/systemd/user"


def install(python: str, *, enable: bool, dry_run: bool, profile: str, search: Search) -> Outcome:
    """Put the units in place and have systemd listen. Doing it again changes nothing but the stored PATH.

    Raises HearthError when a file that Hearth did not write is in the way, and when systemd refuses.
    """
    _refuse_unreachable(paths.Places(profile))
    folder, ours = units_folder(), units.of_profile(profile)
    wanted = {} if units.is_packaged(PACKAGED, ours, python) else units.render_all(python, ours)
    plan, texts = units.plan_changes(folder, ours, wanted, [ours.path_drop_in], search)
    manager = units.Manager(folder)
    outcome = Outcome(folder, plan, MANAGER, manager_problem=manager.problem)
    units.describe_search(outcome, search)
    if manager.problem is not None:
        outcome.commands = [ours.systemctl("daemon-reload"), ours.systemctl("enable", "--now", ours.socket)]
    elif not enable:
        outcome.commands = [ours.systemctl("enable", "--now", ours.socket)]
    if dry_run:
        return outcome
    outcome.compiled = compile_package(python)
    service_files.write(folder, {name: texts[name] for name in plan.write})
    units.remove_files(folder, plan.remove)
    if manager.problem is None:
        manager.do("daemon-reload")
        if enable:
            manager.listen(ours)
            outcome.enabled = True
        if ours.path_drop_in in (*plan.write, *plan.remove) and manager.is_active(ours.service):
            outcome.notes.append(
                "The daemon that runs keeps the PATH that it was started with, until `hearth restart`."
            )
    return outcome


def uninstall(*, dry_run: bool, profile: str) -> Outcome:
    """Stop listening, stop the daemon, remove the units. Doing it again changes nothing.

    The files that all profiles share are removed with the last profile. Raises HearthError when systemd refuses, and
    when a file cannot be removed.
    """
    folder, ours = units_folder(), units.of_profile(profile)
    others = set(units.matching(folder, units.of_profile("*").enabled_link)) - {ours.enabled_link}
    shared = profile != paths.DEFAULT_PROFILE and bool(others)
    present = service_files.read(folder, () if shared else (*ours.files, *ours.more))
    plan = service_files.plan_uninstall({**present, **units.read_paths(folder, [ours.path_drop_in])})
    manager = units.Manager(folder)
    outcome = Outcome(folder, plan, MANAGER, manager_problem=manager.problem)
    links = [link for each in (ours.socket, *ours.more) for link in units.matching(folder, units.enabled(each))]
    if manager.problem is not None and (plan.remove or links):
        outcome.commands = [ours.systemctl("stop", ours.socket), ours.systemctl("daemon-reload")]
    _mention_package(outcome, ours)
    if dry_run or not (plan.remove or links):
        return outcome
    if manager.problem is None:
        both = [name for name, file in zip(ours[:2], ours.files, strict=True) if file not in plan.foreign]
        # A unit that does not exist, or was never enabled, is no obstacle.
        manager.attempt("disable", "--now", *ours.more)
        manager.do("disable", "--now", *both)
        manager.attempt("reset-failed", *both)
    units.remove_files(folder, (*links, *plan.remove))
    if manager.problem is None:
        manager.do("daemon-reload")
    return outcome


def units_folder() -> str:
    """Return the folder of the user's own units."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    base = named if named.startswith("/") else os.path.join(paths.home_dir(), ".config")
    return os.path.join(base, "systemd", "user")


def _mention_package(outcome: Outcome, ours: units.Units) -> None:
    if os.path.exists(os.path.join(PACKAGED, ours.files[0])):
        outcome.notes.append(
            f"The units in {PACKAGED} belong to a package, and stay. `{ours.systemctl('mask', '--now', ours.socket)}`"
            " keeps them from listening for you."
        )


def _refuse_unreachable(places: paths.Places) -> None:
    if places.system_wide:
        raise HearthError(
            f"the administrator of this machine has set up a socket for you, {places.socket}, and every bridge of"
            " yours finds it: nothing need be installed"
        )
    if os.path.basename(places.socket) != places.key + ".sock":
        raise HearthError(
            f"the profile's name is so long that its socket has to be {places.socket}; take a shorter one"
        )
