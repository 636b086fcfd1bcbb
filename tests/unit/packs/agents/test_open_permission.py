"""Permission requests as they are shown."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from hearth.hub.authorization.pending import PendingItem
from hearth.masking import MASK, Mask
from hearth.packs.agents import acp
from hearth.packs.agents.permissions.requests import SHOWN_CHARACTERS, OpenPermission

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent

SECRET = "tr0ub4dor&3-of-the-provider"


def described(title: object) -> dict[str, Any]:
    agent = cast("Agent", SimpleNamespace(record=SimpleNamespace(provider="claude"), permissions={}))
    request = acp.PermissionRequest("s", {"toolCallId": "c", "title": title, "rawInput": {"key": SECRET}}, ())
    return OpenPermission(agent, request, lambda option: None, PendingItem("p")).describe()


def test_a_title_is_shown_on_one_line_without_secrets_and_what_controls_a_terminal() -> None:
    kept = Mask([SECRET])
    assert described(f"push {SECRET}\nallow\x1b[2K \u202ename")["title"] == f"push {MASK}\\nallow\\u001b[2K \\u202ename"
    assert described("x" * 100_000)["title"] == "x" * SHOWN_CHARACTERS
    assert described(["no"])["title"] is None
    assert described("x")["input"] == {"key": MASK}
    assert kept(SECRET) == MASK
