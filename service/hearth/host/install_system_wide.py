"""Sockets for the users of a shared host, held by the system's systemd: putting them in place and taking them away.

Typed by root. Knows nothing of how a person is told about it: `Outcome` says what was done and what is left to type.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hearth.errors import HearthError
from hearth.host import unit_files, units, written_files
from hearth.host.byte_code import compile_package
from hearth.host.install_systemd import MANAGER
from hearth.host.keg import lasting
from hearth.host.shell_path import NOTHING, Search
from hearth.host.systemctl import Manager
from hearth.host.written_files import Outcome, Plan

FOLDER = "/etc/systemd/system"
# Where packages put units for the system.
PACKAGED = "/usr/lib/systemd/system"
# An interpreter starts in 20 ms; a home on a network may have to be mounted first.
_TRIAL_SECONDS = 30
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

    Without `search`, a PATH that is kept for one of them stays. Raises HearthError for whoever is not root, for a user
    who does not exist or cannot run this installation, when a file of somebody else is in the way, and when systemd
    refuses.
    """
    _demand_root("install")
    python = lasting(python)
    owners = [_owner(name) for name in dict.fromkeys(users)]
    for owner in owners:
        _try_out(python, owner)
    wanted = {} if unit_files.is_packaged(PACKAGED, _ANY, python) else unit_files.rendered(python, _ANY)
    drop_ins = [] if search is None else [owner.units.path_drop_in for owner in owners]
    plan, texts = unit_files.plan(FOLDER, _ANY, wanted, drop_ins, search or NOTHING)
    manager = Manager(FOLDER, scope=())
    outcome = Outcome(FOLDER, plan, MANAGER, manager_problem=manager.problem)
    unit_files.describe_search(outcome, search or NOTHING)
    if manager.problem is not None or not enable:
        sockets = [owner.units.socket for owner in owners] or ["mcp-user@UID.socket"]
        outcome.commands = [f"systemctl enable --now {' '.join(sockets)}"]
        if manager.problem is not None:
            outcome.commands.insert(0, "systemctl daemon-reload")
    if dry_run:
        return outcome
    outcome.compiled = compile_package(python)
    written_files.write(FOLDER, {name: texts[name] for name in plan.write})
    _remove(plan.remove)
    if manager.problem is None:
        manager.do("daemon-reload")
        for owner in owners if enable else ():
            manager.listen(owner.units)
            outcome.enabled = True
    return outcome


def uninstall(users: Sequence[str], *, dry_run: bool = False) -> Outcome:
    """Stop listening for these users; without any, for all, and remove the templates. Doing it again changes nothing.

    Raises HearthError for whoever is not root, for a user who does not exist, and when systemd refuses.
    """
    _demand_root("uninstall")
    named = [_owner(name).units for name in dict.fromkeys(users)]
    links = [link for each in named or [_ANY] for link in unit_files.matching(FOLDER, each.enabled_link)]
    drop_ins = [name for each in named or [_ANY] for name in unit_files.matching(FOLDER, each.path_drop_in)]
    files = {} if named else written_files.read(FOLDER, unit_files.names(_ANY))
    plan = written_files.plan_uninstall({**files, **unit_files.read_paths(FOLDER, drop_ins)})
    manager = Manager(FOLDER, scope=())
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


def _try_out(python: str, owner: _Owner) -> None:
    """An installation in root's home works for root alone: better said now than by a unit that fails later."""
    if sys.platform == "win32":
        return
    try:
        done = subprocess.run(
            [python, "-I", "-c", "import hearth.server.entry"],
            user=owner.uid,
            group=owner.gid,
            extra_groups=os.getgrouplist(owner.name, owner.gid),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
        said = done.stderr.strip().splitlines()[-1:] if done.returncode else None
    except (OSError, subprocess.TimeoutExpired) as exc:
        said = [str(exc)]
    if said is not None:
        raise HearthError(
            f"{owner.name} cannot run this installation ({''.join(said) or python}); install Hearth where every user"
            " can read it, such as /opt/hearth"
        )


def _remove(names: Iterable[str]) -> None:
    """Only folders of drop-ins are taken away with the last file in them: the others are the system's."""
    written_files.remove(FOLDER, names)
    for name in names:
        folder = os.path.dirname(os.path.join(FOLDER, name))
        if folder.endswith(".d"):
            try:
                os.rmdir(folder)
            except OSError:
                continue
