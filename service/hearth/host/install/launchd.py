"""Installer of the launchd agent, which `host.macos.launchd` describes and `host.macos.launchctl` loads.

This module does not talk to a person. `Outcome` says what was done and what is left to type.
"""

import os
import shlex

from hearth import paths
from hearth.errors import HearthError
from hearth.host.folders import make_private
from hearth.host.install import service_files
from hearth.host.install.service_files import Outcome, compile_package, fill
from hearth.host.macos import launchd as agent
from hearth.host.macos.launchctl import Launchctl

MANAGER = "launchd"


def install(python: str, *, enable: bool, dry_run: bool) -> Outcome:
    """Put the agent in place and have launchd listen. Doing it again changes nothing.

    Raises HearthError when a file that Hearth did not write is in the way, when the socket's folder does not survive a
    restart, and when launchd refuses.
    """
    places = paths.Places()
    _refuse_fleeting(places)
    folder, path, searched = agent.agents_folder(), agent.file(), agent.search_path(os.environ.get("PATH", ""))
    wanted = {agent.FILE_NAME: rendered(python, places, searched)}
    plan = service_files.plan_install(wanted, service_files.read(folder, wanted))
    if plan.foreign:
        raise HearthError(f"{path} was not written by Hearth and is left as it is; move it away, then try again")
    launchd = Launchctl()
    outcome = Outcome(folder, plan, MANAGER, manager_problem=launchd.problem, search_path=searched)
    if launchd.problem is not None or not enable:
        outcome.commands = [shlex.join(launchd.command_to_load(path))]
    if dry_run:
        return outcome
    outcome.compiled = compile_package(python)
    # launchd makes none of these folders, and binds the socket at login, before any part of Hearth runs.
    for private in (*places.private_folders(), os.path.dirname(places.log)):
        make_private(private)
    service_files.write(folder, {name: wanted[name] for name in plan.write})
    if launchd.problem is None and enable:
        _listen(launchd, path, anew=bool(plan.write) or not os.path.lexists(places.socket))
        outcome.enabled = True
    return outcome


def uninstall(*, dry_run: bool) -> Outcome:
    """Stop listening, stop the daemon, remove the agent. Doing it again changes nothing.

    Raises HearthError when launchd refuses, and when the file cannot be removed.
    """
    folder, path = agent.agents_folder(), agent.file()
    plan = service_files.plan_uninstall(service_files.read(folder, [agent.FILE_NAME]))
    launchd = Launchctl()
    outcome = Outcome(folder, plan, MANAGER, manager_problem=launchd.problem)
    if launchd.problem is not None and plan.remove:
        outcome.commands = [shlex.join(launchd.command_to_unload(path))]
    if dry_run or not plan.remove:
        return outcome
    if launchd.problem is None and launchd.is_loaded():
        launchd.unload(path)
    service_files.remove(folder, plan.remove)
    # A bridge that found the agent unloaded but its file still there has loaded it again.
    if launchd.problem is None and launchd.is_loaded():
        launchd.unload(path)
    return outcome


def rendered(python: str, places: paths.Places, searched: str) -> str:
    """Return the text of the property list for this interpreter and these places."""
    if not os.path.isabs(python):
        raise HearthError(f"launchd cannot start {python!r}: it needs the whole path of the interpreter")
    values = {
        "PYTHON": python,
        "SOCKET": places.socket,
        "PATH": searched,
        "HOME": paths.home_dir(),
        "OUTPUT": output_file(places),
    }
    return fill(service_files.template("launchd", agent.FILE_NAME), values, MANAGER)


def output_file(places: paths.Places) -> str:
    """Return the file for the daemon's output before it has opened its log."""
    return os.path.join(os.path.dirname(places.log), f"{places.key}.launchd.log")


def _listen(launchd: Launchctl, path: str, anew: bool) -> None:
    if launchd.is_loaded():
        if not anew:
            return
        # launchd reads the file only when it loads the agent.
        launchd.unload(path)
    launchd.load(path)


def _refuse_fleeting(places: paths.Places) -> None:
    if places.socket.startswith(paths.short_dir() + "/"):
        raise HearthError(
            f"your home has so long a path that the socket has to be {places.socket}, in a folder that is emptied when"
            " the Mac starts, and launchd could not bind it there. Nothing need be installed: the bridge starts the"
            " daemon when it is needed"
        )
