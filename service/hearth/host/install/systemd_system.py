"""Installer of sockets for the users of a shared host, held by the system's systemd.

Run by root. This module does not talk to a person: `Outcome` says what was done and what is left to type.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hearth.errors import HearthError
from hearth.host import ownership
from hearth.host.install import service_files
from hearth.host.install.service_files import Outcome, Plan, compile_package
from hearth.host.install.systemd_user import MANAGER
from hearth.host.lasting_paths import NOTHING, Search, lasting
from hearth.host.linux import units

FOLDER = "/etc/systemd/system"
# Folder in which packages install units for the system.
PACKAGED = "/usr/lib/systemd/system"
# An interpreter starts in 20 ms; a home folder on a network may have to be mounted first.
_TRIAL_SECONDS = 30
# Files that the interpreter reads when it starts the daemon. In libraries everything matters, not only the path there.
_PLACES_CODE = """
import json, os, sys, sysconfig
import hearth.daemon.main
package = os.path.dirname(os.path.dirname(hearth.daemon.main.__file__))
libraries = [package, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
ways = [sys.executable, os.path.join(sys.prefix, "pyvenv.cfg"), *sys.path]
print(json.dumps([ways, sorted(set(libraries))]))
"""
_ANY = units.of_user("*")


class _Owner(NamedTuple):
    name: str
    uid: int
    gid: int

    @property
    def units(self) -> units.Units:
        return units.of_user(self.uid)


def install(
    users: Sequence[str],
    python: str = sys.executable,
    *,
    enable: bool = True,
    dry_run: bool = False,
    search: Search | None = None,
) -> Outcome:
    """Put the templates in place and have systemd listen for each of these users. Doing it again changes nothing.

    Without `search`, a PATH that is stored for one of them stays. Raises HearthError if the caller is not root, for a
    user who does not exist or cannot run this installation, for an installation or a PATH that others could change,
    when a file that Hearth did not write is in the way, and when systemd refuses.
    """
    _demand_root("install")
    python = lasting(python)
    owners = [_owner(name) for name in dict.fromkeys(users)]
    _demand_good_hands(python)
    for owner in owners:
        # Better an error now than a unit that fails later: the installation may be in root's home.
        _said(python, "import hearth.daemon.main", owner)
        _demand_own_path(owner, search or NOTHING)
    wanted = {} if units.is_packaged(PACKAGED, _ANY, python) else units.render_all(python, _ANY)
    drop_ins = [] if search is None else [owner.units.path_drop_in for owner in owners]
    plan, texts = units.plan_changes(FOLDER, _ANY, wanted, drop_ins, search or NOTHING)
    manager = units.Manager(FOLDER, scope=())
    outcome = Outcome(FOLDER, plan, MANAGER, manager_problem=manager.problem)
    units.describe_search(outcome, search or NOTHING)
    if manager.problem is not None or not enable:
        sockets = [owner.units.socket for owner in owners] or ["mcp-user@UID.socket"]
        outcome.commands = [f"systemctl enable --now {' '.join(sockets)}"]
        if manager.problem is not None:
            outcome.commands.insert(0, "systemctl daemon-reload")
    if dry_run:
        return outcome
    outcome.compiled = compile_package(python)
    service_files.write(FOLDER, {name: texts[name] for name in plan.write})
    _remove(plan.remove)
    if manager.problem is None:
        manager.do("daemon-reload")
        for owner in owners if enable else ():
            manager.listen(owner.units)
            outcome.enabled = True
    return outcome


def uninstall(users: Sequence[str], *, dry_run: bool = False) -> Outcome:
    """Stop listening for these users; without any, for all users, and remove the templates. Safe to repeat.

    Raises HearthError if the caller is not root, for a user who does not exist, and when systemd refuses.
    """
    _demand_root("uninstall")
    named = [_owner(name).units for name in dict.fromkeys(users)]
    links = [link for each in named or [_ANY] for link in units.matching(FOLDER, each.enabled_link)]
    drop_ins = [name for each in named or [_ANY] for name in units.matching(FOLDER, each.path_drop_in)]
    files = {} if named else service_files.read(FOLDER, _ANY.file_names)
    plan = service_files.plan_uninstall({**files, **units.read_paths(FOLDER, drop_ins)})
    manager = units.Manager(FOLDER, scope=())
    sockets = [os.path.basename(link) for link in links]
    plan = Plan(remove=(*links, *plan.remove), foreign=plan.foreign)
    outcome = Outcome(FOLDER, plan, MANAGER, manager_problem=manager.problem)
    if manager.problem is not None and plan.remove:
        outcome.commands = [f"systemctl stop {' '.join(sockets)}"] if sockets else []
        outcome.commands.append("systemctl daemon-reload")
    if dry_run or not plan.remove:
        return outcome
    if manager.problem is None and sockets:
        manager.do("disable", "--now", *sockets)
        manager.attempt("reset-failed", *sockets)
    _remove(plan.remove)
    if manager.problem is None:
        manager.do("daemon-reload")
    return outcome


def _demand_root(verb: str) -> None:
    if sys.platform != "linux":
        raise HearthError("--system is for systemd, which only Linux has")
    if os.geteuid() != 0:
        raise HearthError(f"only root can change units of the system: `sudo hearth {verb} --system …`")


def _owner(name: str) -> _Owner:
    if sys.platform == "win32":
        raise HearthError("Windows has no users by number")
    import pwd

    try:
        found = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError) as exc:
        raise HearthError(f"there is no user {name!r} on this machine") from exc
    return _Owner(found.pw_name, found.pw_uid, found.pw_gid)


def _demand_good_hands(python: str) -> None:
    """Raise HearthError if others than root can change the installation: they could run code as each of its users."""
    # The interpreter comes first: the rest is its own answer.
    objection = ownership.objection(python)
    if objection is None:
        ways, libraries = json.loads(_said(python, _PLACES_CODE, None))
        objections = [*map(ownership.objection, ways), *map(ownership.objection_below, libraries)]
        objection = next(filter(None, objections), None)
    if objection is not None:
        raise HearthError(
            f"{objection}, so others than root could change what these users' daemons run. For --system, install Hearth"
            " as a package of the system or into a folder that root alone can write to: `sudo python3 -m venv"
            " /opt/hearth`, then `sudo /opt/hearth/bin/pip install mcp-hearth`"
        )


def _demand_own_path(owner: _Owner, search: Search) -> None:
    trusted = ownership.Trusted((0, owner.uid), ownership.private_group(owner.name, owner.gid))
    for folder in search.folders:
        objection = ownership.objection(folder, trusted)
        if objection is not None:
            raise HearthError(
                f"{folder!r} cannot be searched for programs of {owner.name}: {objection}. Leave it out of --path, or"
                f" let only root and {owner.name} write there"
            )


def _said(python: str, code: str, owner: _Owner | None) -> str:
    """Return the output of a piece of Python, run as the daemon is, by that user or by root. Raises HearthError."""
    who: dict[str, Any] = {}
    done: subprocess.CompletedProcess[str]
    if sys.platform != "win32" and owner is not None:
        who = {"user": owner.uid, "group": owner.gid, "extra_groups": os.getgrouplist(owner.name, owner.gid)}
    try:
        done = subprocess.run(
            [python, "-I", "-c", code],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TRIAL_SECONDS,
            check=False,
            **who,
        )
        problem = done.stderr.strip().splitlines()[-1:] if done.returncode else None
    except (OSError, subprocess.TimeoutExpired) as exc:
        problem = [str(exc)]
    else:
        if problem is None:
            return done.stdout
    raise HearthError(
        f"{owner.name if owner else 'root'} cannot run this installation ({''.join(problem) or python}); install Hearth"
        " where every user can read it, such as /opt/hearth"
    )


def _remove(names: Iterable[str]) -> None:
    """Remove files, and empty folders of drop-ins; other folders belong to the system."""
    service_files.remove(FOLDER, names)
    for name in names:
        folder = os.path.dirname(os.path.join(FOLDER, name))
        if folder.endswith(".d"):
            try:
                os.rmdir(folder)
            except OSError:
                continue
