"""Table of what waits for a decision: its bounds, its items, and how they are decided without a policy."""

import asyncio
import math
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hearth.errors import NoRoom, Refused
from hearth.hub.authorization.pending import (
    BYTES_LIMIT,
    ITEMS_LIMIT,
    ITEMS_PER_PRINCIPAL,
    SCOPES,
    Approver,
    Pending,
    PendingItem,
    Settlement,
)
from hearth.hub.events import EVENTS, ApprovalDecided, ApprovalRequested
from hearth.masking import Mask
from unit.hub.authorization.agents_stage import PermissionItem

PERSON = Approver("person", "cli")


def item(principal: str, size: int = 0) -> PendingItem:
    found = PendingItem(principal, math.inf)
    found.size = size
    return found


def items(count: int) -> Iterator[PendingItem]:
    """Return items of as many principals as are needed."""
    return (item(str(number // ITEMS_PER_PRINCIPAL)) for number in range(count))


def test_one_principal_has_a_bound_and_room_again_after_a_decision() -> None:
    pending = Pending()
    mine = [item("me") for _ in range(ITEMS_PER_PRINCIPAL)]
    for each in mine:
        pending.add(each)
    with pytest.raises(NoRoom, match="20 requests of this client already wait"):
        pending.add(item("me"))
    pending.add(item("another"))
    pending.settle(mine[0], Settlement("denied"))
    pending.add(item("me"))


def test_all_principals_together_have_a_bound() -> None:
    pending = Pending()
    for each in items(ITEMS_LIMIT):
        pending.add(each)
    with pytest.raises(NoRoom, match="1000 requests already wait for a decision; `hearth approvals` lists them"):
        pending.add(item("another"))
    assert len(pending) == ITEMS_LIMIT


def test_arguments_that_are_kept_have_a_bound() -> None:
    pending = Pending()
    large = item("one", BYTES_LIMIT - 10)
    pending.add(large)
    with pytest.raises(NoRoom, match="over 67108864 bytes of requests would wait"):
        pending.add(item("two", 11))
    pending.add(item("two", 10))
    pending.add(item("three"))
    pending.settle(large, Settlement("withdrawn"))
    pending.add(item("two", 11))


# --- items


async def test_an_item_is_described_announced_and_decided_without_a_policy() -> None:
    pending = Pending()
    found = PermissionItem(pending)
    pending.add(found)
    shown = found.describe()
    assert list(shown) == [
        *("id", "kind", "session", "client", "agent", "role", "server", "tool", "arguments", "digest", "reason"),
        *("level", "lead", "workspace", "created", "expires"),
    ]
    assert (shown["kind"], shown["role"], shown["expires"], shown["level"]) == ("permission", None, None, "human")
    event = EVENTS.kept()[-1]
    assert isinstance(event, ApprovalRequested)
    assert (event.id, event.kind, event.agent, event.tool) == (found.id, "permission", "a1", "Bash")
    waiting = asyncio.ensure_future(found.wait(None))
    await asyncio.sleep(0)
    assert found.is_awaited
    assert await pending.decide(found.id, "deny", PERSON, "no\u202eway") == f"permission {found.id} is denied"
    assert await waiting == Settlement("denied", "no\\u202eway", "person", "cli")
    decided = EVENTS.kept()[-1]
    assert isinstance(decided, ApprovalDecided)
    assert (decided.id, decided.verdict, decided.by, len(pending)) == (found.id, "denied", "person", 0)
    with pytest.raises(Refused, match=r"no approval .* is pending"):
        await pending.decide(found.id, "approve", PERSON)


@pytest.mark.parametrize(("action", "scope"), [("allow", "once"), ("approve", "forever"), ("", "")])
async def test_a_decision_in_other_words_is_refused(action: str, scope: str) -> None:
    pending = Pending()
    found = PermissionItem(pending)
    pending.add(found)
    with pytest.raises(Refused, match="a decision is approve, deny or escalate"):
        await pending.decide(found.id, action, PERSON, "", scope)
    with pytest.raises(Refused, match="given for once"):
        await pending.decide(found.id, "approve", PERSON, "", "always")
    assert len(pending) == 1


async def test_arguments_are_shown_without_secrets_and_on_one_line() -> None:
    mask = Mask(["0pen-sesame-1234"])
    shown = PermissionItem(Pending(), b'{"command":"echo 0pen-sesame-1234"}\n\x1b[2J').shown
    assert "sesame" not in shown and "\n" not in shown and "\x1b" not in shown
    assert "too many to show" in PermissionItem(Pending(), b"x" * 20_000).shown
    del mask


async def test_everything_is_withdrawn_at_the_end() -> None:
    pending = Pending()
    found = [PermissionItem(pending) for _ in range(3)]
    for each in found:
        pending.add(each)
    pending.drain("the daemon shuts down")
    assert {each.outcome and each.outcome.verdict for each in found} == {"withdrawn"}
    assert (len(pending), pending.settle(found[0], Settlement("approved"))) == (0, False)


async def test_what_a_closed_agent_asked_is_withdrawn() -> None:
    pending = Pending()
    mine, other = PermissionItem(pending), item("another")
    pending.add(mine)
    pending.add(other)
    pending.agent_closed("a2")
    assert mine.outcome is None
    pending.agent_closed("a1")
    assert (mine.outcome, other.outcome) == (Settlement("withdrawn", "the agent was closed"), None)


def test_the_words_for_scopes_are_those_of_grants() -> None:
    from hearth.policy import grants

    assert SCOPES == (grants.ONCE, grants.SESSION, grants.ALWAYS)


def test_the_table_and_the_directory_of_agents_load_nothing_of_the_policy() -> None:
    modules = "hearth.hub.hub, hearth.hub.authorization.pending, hearth.hub.agent_directory, hearth.daemon.control"
    program = f"import sys, {modules}; print([name for name in sys.modules if name.startswith('hearth.policy')])"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
