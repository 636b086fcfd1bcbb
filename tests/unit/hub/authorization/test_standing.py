"""What a session's calls are decided by: kept for its next call, and found anew where it may be another."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from hearth.errors import Refused
from hearth.hub.authorization.decided_call import KNOWN_LIMIT, Permit, Standing
from hearth.hub.authorization.guard import Guard
from hearth.hub.sessions import Session
from hearth.hub.sinks import ClientSink
from hearth.mcp import messages
from hearth.policy.decision import allowed_by_name
from hearth.policy.loader import parse
from hearth.policy.model import Decision

POLICY = b'default_role = "dev"\n[roles.dev]\ntools = ["**"]\n[roles.tl]\n'


class Rows:
    """Recorder that keeps what it is given, in the place of the audit trail."""

    def __init__(self) -> None:
        self.permits: list[Permit] = []

    def call(self, permit: Permit) -> None:
        self.permits.append(permit)

    async def approval(self, approval: object, outcome: object) -> None:
        raise AssertionError


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def guard(rows: Rows) -> Guard:
    # Neither approvals nor tokens are looked at here.
    unused = cast(Any, SimpleNamespace(roles=None))
    return Guard(parse("/c/policy.toml", POLICY), unused, rows, unused)


@pytest.mark.parametrize("change", ["identify", "prove"])
def test_a_session_of_another_role_or_folder_is_not_decided_about_as_before(guard: Guard, change: str) -> None:
    session = Session(ClientSink(), "lines")
    session.stand(Standing(guard, guard.policy, session, "dev"))
    if change == "identify":
        session.identify(cwd="/elsewhere", role="tl")
    else:
        session.prove("tl", None)
    assert session.standing is None


def test_tools_that_are_allowed_by_name_are_known_within_a_bound(guard: Guard) -> None:
    standing = Standing(guard, guard.policy, Session(ClientSink(), "lines"), "dev")
    for number in range(KNOWN_LIMIT + 10):
        name = ("echo", f"tool{number}")
        standing.know(name, allowed_by_name(guard.policy, "dev", *name))
    assert 0 < len(standing.by_name) <= KNOWN_LIMIT
    standing.know(("echo", "asked"), None)
    assert ("echo", "asked") not in standing.by_name


@pytest.mark.parametrize("id", [b"1", b'"error"', b'"' + b"x" * 500 + b'"'])
def test_an_error_is_told_from_an_answer_whatever_they_contain(guard: Guard, rows: Rows, id: bytes) -> None:
    standing = Standing(guard, guard.policy, Session(ClientSink(), "lines"), "dev")
    answers = [
        messages.raw_error(id, b'{"result":1}'),
        messages.failure(id, Refused("no")),
        messages.result(id, b'{"structuredContent":{"error":1},"error":2}'),
    ]
    for answer in answers:
        Permit(standing, ("echo", "echo"), b"{}", Decision("allow", "", "", ""), 0.0).finished(answer, id)
    assert [each.made().outcome for each in rows.permits] == ["error", "error", "answered"]
