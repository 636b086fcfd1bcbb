"""The owner: the first, then the earliest active one; told to everybody, and never taken back."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from outlets import Kept, session

from hearth.hub.events import EVENTS
from hearth.hub.sessions import Session, Sessions
from hearth.hub.sinks import ClientSink
from hearth.mcp import versions
from hearth.wire import json


def crowd(count: int) -> tuple[Sessions, list[tuple[Session, Kept]]]:
    sessions, members = Sessions(), [session() for _ in range(count)]
    for member, _ in members:
        sessions.add(member)
    return sessions, members


def test_the_first_session_is_the_owner_and_stays_it() -> None:
    sessions, members = crowd(3)
    assert sessions.owner is members[0][0]
    assert [len(sink.heard("owner")) for _, sink in members] == [1, 0, 0]


def test_when_the_owner_leaves_the_earliest_other_follows_and_all_are_told() -> None:
    sessions, [(first, _), (second, heard), (_, also)] = crowd(3)
    sessions.remove(first)
    assert sessions.owner is second
    assert heard.heard("owner") == [("owner", second.id, True)]
    assert also.heard("owner") == [("owner", second.id, False)]


def test_when_another_leaves_nobody_is_told() -> None:
    sessions, [(first, _), (second, _), (_, sink)] = crowd(3)
    sessions.remove(second)
    assert sessions.owner is first
    assert sink.heard("owner") == []


def test_a_silent_owner_is_followed_and_does_not_come_back_as_owner() -> None:
    sessions, [(first, sink), (second, _)] = crowd(2)
    sessions.fell_silent(first)
    assert sessions.owner is second
    assert sink.heard("owner")[-1] == ("owner", second.id, False)
    sessions.came_back(first)
    assert (sessions.owner, first.active) == (second, True)


def test_when_all_are_silent_there_is_no_owner_until_one_speaks() -> None:
    sessions, [(first, _), (second, _)] = crowd(2)
    sessions.fell_silent(first)
    sessions.fell_silent(second)
    assert sessions.owner is None
    sessions.came_back(second)
    assert sessions.owner is second


def test_an_owner_that_is_elected_again_is_no_event() -> None:
    sessions, [(first, _)] = crowd(1)
    before = len(EVENTS.kept())
    for _ in range(3):
        sessions.fell_silent(first)
        sessions.came_back(first)
    assert sessions.owner is first
    assert len(EVENTS.kept()) == before


def test_the_earliest_follows_in_whatever_order_they_spoke_again() -> None:
    sessions, [(first, _), (second, _), (third, _)] = crowd(3)
    for each in (first, second, third):
        sessions.fell_silent(each)
    for each in (third, second, first):
        sessions.came_back(each)
    assert sessions.owner is third
    sessions.fell_silent(third)
    assert sessions.owner is first


def test_one_without_a_way_to_hear_of_it_is_owner_all_the_same() -> None:
    sessions, [(first, heard)] = crowd(1)
    deaf, sink = session()
    sink.hears_of_owner = False
    sessions.add(deaf)
    sessions.fell_silent(first)
    assert sessions.owner is deaf
    assert (heard.heard("owner")[-1], sink.heard("owner")) == (("owner", deaf.id, False), [])


def test_one_that_has_left_does_not_become_owner_by_speaking() -> None:
    sessions, [(first, _)] = crowd(1)
    sessions.remove(first)
    sessions.came_back(first)
    assert sessions.owner is None


def test_removing_a_session_whose_id_another_has_by_now_changes_nothing() -> None:
    sessions, [(first, _)] = crowd(1)
    heir = Session(Kept(), "frames", first.id)
    sessions.remove(first)
    sessions.add(heir)
    sessions.remove(first)
    assert sessions.get(first.id) is heir
    assert len(sessions) == 1


def test_a_session_may_be_removed_while_all_are_looked_at() -> None:
    sessions, members = crowd(3)
    for member in sessions:
        sessions.remove(member)
    assert (len(sessions), sessions.owner) == (0, None)
    assert len(members) == 3


@pytest.mark.parametrize(
    ("era", "version", "capabilities", "can"),
    [
        (versions.LEGACY, "2025-06-18", b'{"elicitation":{}}', True),
        (versions.LEGACY, "2025-11-25", b'{"elicitation":{"form":{}}}', True),
        (versions.LEGACY, "2025-03-26", b'{"elicitation":{}}', False),
        (versions.LEGACY, "2025-11-25", b"{}", False),
        (versions.MODERN, "2026-07-28", b'{"elicitation":{}}', False),
        (None, None, b"{}", False),
    ],
)
def test_a_client_can_be_asked_when_its_revision_and_its_capabilities_allow(
    era: str | None, version: str | None, capabilities: bytes, can: bool
) -> None:
    member, _ = session()
    member.era, member.version, member.capabilities = era, version, json.split(capabilities)
    assert member.can_be_asked() is can


def test_ids_and_secrets_are_not_shared_and_the_secret_is_not_shown() -> None:
    (first, _), (second, _) = session(), session()
    assert first.id != second.id
    assert first.secret != second.secret
    assert first.secret not in str(first.describe())


# --- nobody else writes to a session

ROOT = Path(__file__).parents[3] / "service" / "hearth"


def written(tree: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that are assigned or deleted in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node


def holds_session(node: ast.expr) -> bool:
    """Whether an expression is called as sessions are: `session`, `call.session`, `self._session`, `former`."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.endswith("session") or name in ("former", "asker", "owner", "member", "holder")


def test_only_a_session_s_own_module_writes_to_its_fields() -> None:
    fields = set(vars(Session(ClientSink(), "lines")))
    assert {"era", "view", "roots", "cwd", "mode"} <= fields
    found = [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for package in ("hub", "daemon")
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in written(ast.parse(path.read_text(encoding="utf-8")))
        if node.attr in fields and holds_session(node.value) and path != ROOT / "hub" / "sessions.py"
    ]
    assert found == []
