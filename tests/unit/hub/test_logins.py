"""Calls that wait for a login: what becomes of them when somebody has logged in."""

from collections.abc import Callable

import pytest

from hearth.errors import LoginRequired, UpstreamError
from hearth.hub.calls import Call
from hearth.hub.logins import Logins
from hearth.mcp import versions
from unit.hub.outlets import Kept
from unit.hub.stage import client, opened

PROBLEM = LoginRequired("server 's' needs a login: type `hearth auth login s`", "s")


class Invited:
    """An invitation that is over at once, by a login or without one."""

    id, server, url = "1", "s", "http://127.0.0.1/login"

    def __init__(self, outcome: bool) -> None:
        self.outcome = outcome

    async def wait(self, seconds: float) -> bool:
        return self.outcome

    def when_over(self, act: Callable[[bool], None]) -> None: ...


class Server:
    def __init__(self, invited: Invited) -> None:
        self.invited = invited

    async def invite(self) -> Invited:
        return self.invited


async def asked_again(outcome: bool, again: Callable[[], None]) -> tuple[Call, Kept]:
    """A modern client's call, made once more after its person was shown the page."""
    member, sink = client(versions.MODERN)
    invited = Invited(outcome)
    logins = Logins(lambda name: None, None, b"{}")
    logins._told[invited] = {member.id}  # type: ignore[index]
    call = opened(member)
    await logins._invite(call, PROBLEM, Server(invited), again)  # type: ignore[arg-type]
    return call, sink


async def test_once_somebody_has_logged_in_the_call_is_done() -> None:
    done: list[str] = []
    call, sink = await asked_again(True, lambda: done.append("again"))
    assert (done, call.is_open, sink.messages("answer")) == (["again"], True, [])


async def test_what_keeps_the_call_from_being_done_then_is_its_answer() -> None:
    def again() -> None:
        raise UpstreamError("server 's' is busy")

    _, sink = await asked_again(True, again)
    assert sink.messages("answer")[0]["error"]["message"] == "server 's' is busy"


async def test_where_nobody_has_the_command_to_type_is_the_answer() -> None:
    _, sink = await asked_again(False, lambda: pytest.fail("nobody has logged in"))
    assert sink.messages("answer")[0]["error"]["message"] == str(PROBLEM)
