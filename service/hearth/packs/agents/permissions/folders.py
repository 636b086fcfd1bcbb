"""Folders of new agents: under a policy, those in which the creator may work itself, else a person is asked.

Grants of paths cover the folder of an agent, and a trusted project narrows the policy of those that work in it. So an
agent that chose the folders of its children freely could read anything by a child of its own role, and could leave its
project's policy. Another client chooses its own folder, and may choose any for its agents; unless it works in a trusted
project, whose policy its agents must not leave either.
"""

import os
from typing import TYPE_CHECKING

from hearth.errors import Refused
from hearth.paths import home_dir

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard
    from hearth.packs.agents.identity.authority import AgentCaller
    from hearth.packs.agents.service import AgentService


async def allowed(service: "AgentService", caller: "AgentCaller", folder: str, role: str | None) -> str:
    """Return the folder for a new agent of a role, after links are resolved where there is a bound. Raises Refused."""
    guard, session = service.guard, caller.session
    if guard is None or session is None or caller.is_person:
        return folder
    parent = service.agents.get(caller.agent_id or "")
    own = parent.record.cwd if parent else session.cwd
    if parent is None and guard.policy_for(own) is guard.policy:
        return folder
    found = os.path.realpath(folder)
    if own is None or not _is_within(guard, own, found):
        await _ask(guard, caller, found, role)
    return found


def _is_within(guard: "Guard", own: str, folder: str) -> bool:
    """Tell whether a folder is in the creator's own one or in its repository, and under the same project's policy."""
    from hearth.policy.trust import workspace_of

    policy = guard.policy_for(own)
    if policy is not guard.policy and guard.policy_for(folder) is not policy:
        return False
    if _is_below(folder, os.path.realpath(own)):
        return True
    repository = workspace_of(own)
    # A home folder that is a repository as well holds everything that grants of paths are to keep apart.
    is_home = repository is None or _is_below(os.path.realpath(home_dir()), repository)
    return not is_home and workspace_of(folder) == repository


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


async def _ask(guard: "Guard", caller: "AgentCaller", folder: str, role: str | None) -> None:
    from hearth.policy.agent_modes import AGENT_FOLDER, folder_arguments

    assert caller.session is not None
    arguments = folder_arguments(folder, role or guard.policy.default_role)
    wait = guard.policy.approval_wait
    is_allowed, reason = await guard.obtain(guard.asker(caller.session), None, AGENT_FOLDER, arguments, wait)
    if not is_allowed:
        what = f"the folder {folder!r} is outside of this {'agent' if caller.agent_id else 'client'}'s own"
        raise Refused(f"{what} and of its repository, and a person is asked (cwd): {reason}")
