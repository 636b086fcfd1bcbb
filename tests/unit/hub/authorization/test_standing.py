"""What a session's calls are decided by: kept for its next call, and found anew where it may be another."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from hearth.hub.authorization.decided_call import KNOWN_LIMIT, Standing
from hearth.hub.authorization.guard import Guard
from hearth.hub.sessions import Session
from hearth.hub.sinks import NullSink
from hearth.policy.decision import allowed_by_name
from hearth.policy.loader import parse

POLICY = b'default_role = "dev"\n[roles.dev]\ntools = ["**"]\n[roles.tl]\n'


class Unused:
    """Stand-in for what a guard has beside its policy: nothing here is recorded or asked."""

    roles = None

    def call(self, *_: object) -> None:
        raise AssertionError

    async def approval(self, *_: object) -> None:
        raise AssertionError


@pytest.fixture
def guard() -> Guard:
    unused = cast(Any, Unused())
    return Guard(parse("/c/policy.toml", POLICY), unused, unused, cast(Any, SimpleNamespace()))


@pytest.mark.parametrize("change", ["identify", "prove"])
def test_a_session_of_another_role_or_folder_is_not_decided_about_as_before(guard: Guard, change: str) -> None:
    session = Session(NullSink(), "lines")
    session.stand(Standing(guard, guard.policy, session, "dev"))
    if change == "identify":
        session.identify(cwd="/elsewhere", role="tl")
    else:
        session.prove("tl", None)
    assert session.standing is None


def test_tools_that_are_allowed_by_name_are_known_within_a_bound(guard: Guard) -> None:
    standing = Standing(guard, guard.policy, Session(NullSink(), "lines"), "dev")
    for number in range(KNOWN_LIMIT + 10):
        name = ("echo", f"tool{number}")
        standing.know(name, allowed_by_name(guard.policy, "dev", *name))
    assert 0 < len(standing.by_name) <= KNOWN_LIMIT
    standing.know(("echo", "asked"), None)
    assert ("echo", "asked") not in standing.by_name
