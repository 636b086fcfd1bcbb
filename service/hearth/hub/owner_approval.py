"""Who may stop, restart or reload the daemon: its owner may; anybody else's wish is put to the owner."""

from hearth.errors import HearthError, Refused
from hearth.hub.client_requests import ClientRequests
from hearth.hub.sessions import Session, Sessions
from hearth.wire import json, values

# Long enough for a person who has to look up from something else.
ANSWER_SECONDS = 60.0

_WORDS = {
    "shutdown": "shut the shared MCP daemon down",
    "reload": "reload the configuration of the shared MCP daemon",
    "restart": "restart a server of the shared MCP daemon",
}
_SCHEMA = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Allow it", "default": False}},
    "required": ["approve"],
}


async def obtain(asker: Session, act: str, sessions: Sessions, questions: ClientRequests, policy: str) -> None:
    """Return when the asker may; raise Refused with the reason when not. `policy` is `owner.approve`."""
    owner = sessions.owner
    if owner is None or owner is asker:
        return
    if not owner.can_be_asked():
        if policy == "always":
            return
        raise Refused("the owner's client cannot be asked, and owner.approve is 'never'")
    who = asker.client.get("title") or asker.client.get("name") or f"session {asker.id}"
    params = json.dumps({"message": f"{who} asks to {_WORDS[act]}. Allow it?", "requestedSchema": _SCHEMA})
    try:
        answer = await questions.ask(owner, "elicitation/create", params, ANSWER_SECONDS)
    except HearthError as exc:
        raise Refused(f"the owner was asked: {exc}") from exc
    content = values.members(answer.get("content"))
    if values.text(answer.get("action")) != "accept" or not values.is_true(content.get("approve")):
        raise Refused("the owner said no")
