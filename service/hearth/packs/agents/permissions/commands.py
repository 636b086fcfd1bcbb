"""Commands about agents that are typed below a client or an agent: what they ask of the policy, and what they tell.

Such a command does what a tool of the pack does, so that it needs the same: the role must have the tool, and rules and
approvals hold for it. Its result is masked as the tool's is. A person's commands need nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from hearth.errors import Refused
from hearth.masking import everywhere
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard
    from hearth.hub.sessions import Session

Arguments = Mapping[str, Any]
Result = dict[str, Any]
# Returns a result, or an entry of one, as its reader may see it.
Told = Callable[[Result], Awaitable[Result]]

_PACK = "agents"
# The way of asking: one approval serves one command.
_WAY = "command"
# The tool that does what a command does. No tool forgets agents; ending them comes closest.
_TOOLS = {
    "list": "list_agents",
    "log": "get_agent_activity",
    "create": "create_agent",
    "show": "get_agent_status",
    "send": "send_agent_prompt",
    "wait": "wait_for_agent",
    "cancel": "cancel_agent",
    "kill": "kill_agent",
    "mode": "set_agent_mode",
    "respond": "respond_to_permission",
    "permissions": "list_pending_permissions",
    "prune": "kill_agent",
}
# Members of commands that the tool has under another name, and those that it does not have.
_NAMES = {"prompt": "initialPrompt", "provider": "agentType", "mode": "initialMode"}
_OWN = frozenset({"seconds", "follow", "count", "worktrees", "force"})


async def admit(guard: "Guard | None", verb: str, arguments: Arguments, asker: "Session | None") -> Told:
    """Have the policy decide about a command, and wait for an approval if one is needed. Raises Refused.

    Returns how its results are told: to a person as they are, to others without secrets.
    """
    if asker is None:
        return _as_it_is
    if guard is None:
        return _masked
    tool = _TOOLS[verb]
    raw = json.dumps(_of_tool(verb, arguments))
    wait = guard.policy.approval_wait
    allowed, reason = await guard.obtain(guard.asker(asker), _PACK, tool, raw, wait, way=_WAY)
    if not allowed:
        from hearth.policy.decision import sees

        role, name = guard.role(asker), guard.role_name(asker)
        if role is None or not sees(role, "tools", _PACK, tool):
            reason = f"tool '{_PACK}__{tool}' not available for role {name!r}"
        below = f"agent {asker.proven[1]!r}" if asker.is_agent else "a client"
        what = f"typed below {below}, this counts as its call of {_PACK}__{tool} in role {name!r}"
        raise Refused(f"{what}: {reason}. A person types it in a terminal that is not below the client")
    return _masked


def _of_tool(verb: str, arguments: Arguments) -> dict[str, Any]:
    given = {key: value for key, value in arguments.items() if value is not None and key not in _OWN}
    if verb == "create":
        return {_NAMES.get(key, key): value for key, value in given.items()}
    if verb == "respond":
        answer = {key: given.pop(key) for key in ("behavior", "message") if key in given}
        return {**given, "response": answer}
    return given


async def _as_it_is(found: Result) -> Result:
    return found


async def _masked(found: Result) -> Result:
    # The texts of a long timeline take a second: others are served meanwhile.
    await asyncio.sleep(0)
    return {key: _without_secrets(value) for key, value in found.items()}


def _without_secrets(found: Any) -> Any:
    if isinstance(found, str):
        return everywhere(found)
    if isinstance(found, Mapping):
        return {key: _without_secrets(value) for key, value in found.items()}
    return [_without_secrets(value) for value in found] if isinstance(found, list | tuple) else found
