"""Who caused what a server says of its own accord: certain, or nobody."""

import pytest

from hearth.hub.calls import Call
from hearth.hub.input_required import SuspendedCalls
from hearth.hub.server_messages import calls_of, causing_call, may_be_asked, sole_session
from hearth.hub.sessions import Session
from hearth.mcp import versions
from hearth.upstreams.change_notices import IgnoreReply
from hearth.upstreams.instance import Instance
from unit.hub.stage import client, declaring, instance, offering, sent, server


class Stage:
    """One instance, and calls of several clients on it."""

    def __init__(self, era: str = versions.LEGACY) -> None:
        self.server = server()
        self.instance, self.connection = instance(self.server, offering(era=era))
        self._count = 0

    def call(self, member: Session, method: str = "tools/call", level: str | None = None) -> Call:
        self._count += 1
        meta = declaring(b"{}", level=level)
        return sent(member, self.server, self.instance, b"%d" % self._count, method=method, meta=meta)

    def cause(self, number: int | None = None, asks: bool = False) -> object:
        return causing_call(self.connection, number, asks)


async def test_what_is_said_while_one_session_waits_belongs_to_its_oldest_call() -> None:
    stage, (member, _) = Stage(), client()
    assert stage.cause() is None
    first, second = stage.call(member), stage.call(member)
    assert stage.cause() is first
    stage.connection.give(1, {})
    assert stage.cause() is second


async def test_what_is_said_while_two_sessions_wait_belongs_to_nobody() -> None:
    stage = Stage()
    one = stage.call(client()[0])
    other = stage.call(client()[0])
    assert stage.cause() is None
    other.close(b"{}")
    # The client has its answer, and the server is still at it.
    assert stage.cause() is None
    stage.connection.give(2, {})
    assert stage.cause() is one


async def test_hearth_s_own_requests_cause_nothing() -> None:
    stage = Stage()
    stage.connection.request(b'"logging/setLevel"', b"{}", IgnoreReply("s"))
    assert stage.cause() is stage.cause(1) is None
    call = stage.call(client()[0])
    assert stage.cause() is call


async def test_where_the_stream_tells_it_is_believed_whoever_else_waits() -> None:
    stage = Stage()
    calls = [stage.call(client()[0]) for _ in range(3)]
    assert [stage.cause(number) for number in (1, 2, 3)] == calls
    assert stage.cause(9) is None


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_a_call_that_was_given_up_counts_as_long_as_the_server_may_be_at_it(era: str) -> None:
    stage = Stage(era)
    (one, _), (other, _) = client(era), client(era)
    stage.call(one, level="info").cancel()
    call = stage.call(other)
    assert stage.cause() is None
    mine = stage.call(one)
    stage.connection.give(2, {})
    # Of its own former call nobody else can be meant.
    assert stage.cause() is mine
    stage.connection.give(1, {})
    again = stage.call(other)
    stage.connection.give(3, {})
    assert stage.cause() is again
    assert not call.is_open


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_a_server_that_answers_what_came_after_a_cancellation_knows_of_it_and_a_legacy_one_may_go_on(
    era: str,
) -> None:
    stage = Stage(era)
    (one, _), (other, _) = client(era), client(era)
    stage.call(one, level="info").cancel()
    stage.call(other)
    waiting = stage.call(other)
    assert stage.cause() is None
    stage.connection.give(2, {})
    assert stage.cause() is (waiting if era == versions.MODERN else None)
    stage.connection.give(1, {})
    assert stage.cause() is waiting


async def test_of_a_modern_call_that_named_no_level_nothing_can_be_heard_once_it_is_given_up() -> None:
    stage = Stage(versions.MODERN)
    (one, _), (other, _) = client(versions.MODERN), client(versions.MODERN)
    stage.call(one).cancel()
    call = stage.call(other)
    assert stage.cause() is call


async def test_a_session_s_calls_are_known_from_the_oldest_on() -> None:
    stage, (one, _), (other, _) = Stage(), client(), client()
    mine = [stage.call(one), stage.call(other), stage.call(one)]
    stage.connection.request(b'"logging/setLevel"', b"{}", IgnoreReply("s"))
    assert list(calls_of(one, stage.connection)) == [mine[0], mine[2]]


async def test_a_question_belongs_to_a_call_in_the_midst_of_which_a_client_can_be_asked() -> None:
    stage, (member, _) = Stage(), client(versions.MODERN)
    listing, calling = stage.call(member, "completion/complete"), stage.call(member)
    assert stage.cause() is listing
    assert stage.cause(asks=True) is calling
    stage.connection.give(2, {})
    assert stage.cause(asks=True) is listing


async def test_a_parked_call_is_its_session_s() -> None:
    stage, (member, _) = Stage(), client(versions.MODERN)
    call = stage.call(member)
    parked = SuspendedCalls(lambda: 60.0, lambda: 5, lambda call: None).take(call)
    assert stage.cause() is parked
    assert may_be_asked(parked)
    stage.call(client(versions.MODERN)[0])
    assert stage.cause() is None


@pytest.mark.parametrize(
    ("era", "method", "may"),
    [
        (versions.LEGACY, "completion/complete", True),
        (versions.MODERN, "completion/complete", False),
        (versions.MODERN, "tools/call", True),
        (versions.MODERN, "prompts/get", True),
        (versions.MODERN, "resources/read", True),
    ],
)
async def test_modern_clients_can_be_asked_in_three_methods_only(era: str, method: str, may: bool) -> None:
    assert may_be_asked(Stage().call(client(era)[0], method)) is may


# --- without a call


def used(*users: tuple[Session, bool]) -> Instance:
    """An instance that those have used; some still do."""
    of = server()
    on, _ = instance(of)
    for member, stays in users:
        of.hold(on, member, member.id)
        if not stays:
            on.holders.discard(member)
    return on


def test_what_is_said_when_nobody_waits_is_the_only_session_s_that_ever_used_the_server() -> None:
    (one, _), (other, _) = client(), client()
    assert sole_session(used((one, True))) is one
    assert sole_session(used((one, True), (other, True))) is None
    # Somebody else has been there, and may be meant.
    assert sole_session(used((one, False), (other, True))) is None
    assert sole_session(used((one, False))) is None
    assert sole_session(used()) is None


def test_a_server_that_is_being_started_for_one_session_alone_says_what_it_says_to_that() -> None:
    on, (member, _), (other, _) = used(), client(), client()
    on.owner = member
    assert sole_session(on) is member
    on = used((other, True))
    on.owner = member
    assert sole_session(on) is member
    member.left = True
    assert sole_session(on) is other


def test_only_sessions_are_told_anything() -> None:
    on = used()
    on.holders.add("something")
    on.ever.add("something")
    assert sole_session(on) is None
