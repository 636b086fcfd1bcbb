"""Response to a permission request, as `respond_to_permission` has it, and its way into the pending decisions."""

from typing import TYPE_CHECKING, Any

from hearth.errors import Refused
from hearth.hub.authorization.pending import Approver, Pending

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.identity.authority import AgentCaller
    from hearth.packs.agents.permissions.requests import OpenPermission

# Changes of the request that a response could ask for: an agent would run something without a decision about it.
_REFUSED = ("updatedInput", "updatedPermissions")


async def respond(
    pending: Pending, caller: "AgentCaller", agent: "Agent", request_id: str, response: dict[str, Any]
) -> bool:
    """Decide a request of an agent; return whether its turn must end, too. Raises HearthError."""
    permission = next((each for each in agent.asked() if each.id == request_id), None)
    if permission is None:
        raise Refused(f"agent {agent.id} has no open permission request {request_id!r}; list_pending_permissions")
    for key in _REFUSED:
        if response.get(key) is not None:
            raise Refused(f"{key} is not supported: allow the request as it is, or deny it with a message")
    behavior = response.get("behavior")
    if behavior not in ("allow", "deny"):
        raise Refused("behavior is allow or deny")
    _check_action(permission, response.get("selectedActionId"), behavior)
    by = _approver(caller)
    action = "approve" if behavior == "allow" else "deny"
    await pending.decide(permission.item.id, action, by, str(response.get("message") or ""))
    return behavior == "deny" and bool(response.get("interrupt"))


def _check_action(permission: "OpenPermission", chosen: object, behavior: str) -> None:
    """Raise Refused for an action that is not offered, or means something else."""
    if chosen is None:
        return
    for action in permission.describe()["actions"]:
        if action["id"] == chosen and action["behavior"] == behavior:
            return
    raise Refused(
        f"the request has no action {chosen!r} that means {behavior}; its actions are in list_pending_permissions"
    )


def _approver(caller: "AgentCaller") -> Approver:
    if caller.session is None or caller.is_person:
        return Approver(caller.name or "a person", "cli", caller.session)
    return Approver.at(caller.session, "tool")
