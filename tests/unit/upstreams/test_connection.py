"""One conversation: each answer to its waiter, once, and everything else to the owner.

Requests that were given up: for how long a server may still be busy with them.
"""

import logging
from typing import Any

import pytest

from hearth.errors import HearthError, MessageError, UpstreamError
from hearth.upstreams import connection as module
from hearth.upstreams.connection import GARBAGE_REPORTS, AbandonedRequests, refusal
from hearth.wire import json
from unit.conversations import Hearer, Recorded


class Waiter:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def answered(self, message: json.Message) -> None:
        self.told.append(("answered", json.loads(message.result or message.error or b"null")))

    def failed(self, problem: HearthError) -> None:
        self.told.append(("failed", str(problem)))

    def progressed(self, params: json.Fields) -> None:
        self.told.append(("progressed", {key: json.loads(bytes(value)) for key, value in params.items()}))


def asked(connection: Recorded, method: bytes = b'"m"') -> tuple[int, Waiter]:
    waiter = Waiter()
    return connection.request(method, b"{}", waiter), waiter


@pytest.fixture
def connection() -> Recorded:
    return Recorded()


def test_each_answer_reaches_its_own_waiter_once(connection: Recorded) -> None:
    (first, one), (second, other) = asked(connection), asked(connection)
    assert (first, second, connection.in_flight) == (1, 2, 2)
    connection.give(2, {"a": 2})
    connection.give(2, {"a": 3})
    connection.refuse(1, -32000)
    assert other.told == [("answered", {"a": 2})]
    assert one.told == [("answered", {"code": -32000, "message": "no"})]
    assert connection.in_flight == 0


@pytest.mark.parametrize("id", [b"7", b"-1", b"1.0", b'"1"', b"99999999999999999999999999", b"0"])
def test_an_answer_to_what_was_never_asked_reaches_nobody(connection: Recorded, id: bytes) -> None:
    _, waiter = asked(connection)
    connection._take(json.parse(b'{"jsonrpc":"2.0","id":%b,"result":{}}' % id))
    assert waiter.told == []
    assert connection.in_flight == 1


def test_a_request_that_could_not_be_sent_uses_no_number_and_nobody_waits_for_it(connection: Recorded) -> None:
    connection.broken = True
    with pytest.raises(UpstreamError):
        asked(connection)
    assert (connection.in_flight, connection.reserve()) == (0, 1)
    connection.broken = False
    assert asked(connection)[0] == 1


def test_the_reserved_number_is_the_next_request_s(connection: Recorded) -> None:
    asked(connection)
    assert connection.reserve() == asked(connection)[0] == 2


def test_a_standing_request_is_not_in_flight_and_not_among_those_who_wait(connection: Recorded) -> None:
    _, waiter = asked(connection)
    standing = Waiter()
    number = connection.request_stream(b'"subscriptions/listen"', b"{}", standing)
    assert (connection.in_flight, list(connection.waiters())) == (1, [waiter])
    assert connection.waiter(number) is standing
    connection.give(number, {})
    assert standing.told == [("answered", {})]
    connection.give(1, {})
    assert connection.in_flight == 0


def test_those_who_wait_are_known_from_the_longest_waiting_on(connection: Recorded) -> None:
    waiters = [asked(connection)[1] for _ in range(3)]
    assert list(connection.waiters()) == waiters
    successor = Waiter()
    connection.replace(1, successor)
    connection.replace(9, successor)
    assert list(connection.waiters()) == [successor, *waiters[1:]]
    assert connection.waiter(9) is None


def test_a_cancelled_request_is_withdrawn_with_its_reason_and_its_answer_is_dropped(connection: Recorded) -> None:
    _, waiter = asked(connection)
    connection.cancel(1, b'"late"')
    connection.cancel(1)
    connection.give(1, {})
    assert [item["params"] for item in connection.notified] == [{"requestId": 1, "reason": "late"}]
    assert waiter.told == []


def test_a_forgotten_request_is_not_withdrawn(connection: Recorded) -> None:
    _, waiter = asked(connection)
    connection.forget(1)
    connection.give(1, {})
    assert (connection.notified, waiter.told, connection.in_flight) == ([], [], 0)


@pytest.mark.parametrize("way", ["give", "cancel", "forget", "garbage"])
def test_whoever_waits_for_room_is_told_however_a_request_ends(connection: Recorded, way: str) -> None:
    freed: list[int] = []
    connection.on_free = lambda: freed.append(connection.in_flight)
    asked(connection)
    match way:
        case "give":
            connection.give(1, {})
        case "garbage":
            connection._take(MessageError("nonsense", id=b"1"))
        case _:
            getattr(connection, way)(1)
    assert freed == [0]
    connection.forget(1)
    connection.cancel(1)
    assert freed == [0]


# --- what the server says besides


def test_progress_reaches_the_waiter_of_its_token(connection: Recorded) -> None:
    (_, one), (_, other) = asked(connection), asked(connection)
    connection.say("notifications/progress", {"progressToken": 2, "progress": 5})
    for token in ("2", 9, None):
        connection.say("notifications/progress", {"progressToken": token, "progress": 5})
    assert (one.told, other.told) == ([], [("progressed", {"progressToken": 2, "progress": 5})])


def test_other_notices_and_questions_reach_the_owner_with_their_cause_and_pings_do_not() -> None:
    owner = Hearer()
    connection = Recorded(owner)
    connection.say("notifications/message", {}, cause=3)
    connection.say("roots/list", id="q")
    connection.say("ping", id="p", cause=4)
    assert owner.told == [("noticed", "notifications/message", 3), ("asked", "roots/list", None)]
    assert connection.answers == [{"jsonrpc": "2.0", "id": "p", "result": {}}]
    assert connection.causes == [4]


# --- what cannot be used


def test_an_unusable_answer_fails_its_waiter_and_nobody_else(connection: Recorded) -> None:
    (_, one), (_, other) = asked(connection), asked(connection)
    connection._take(MessageError("nonsense", id=b"1"))
    assert one.told == [("failed", "server 's' gave an unusable answer: nonsense")]
    assert other.told == []


def test_an_unusable_answer_to_a_standing_request_leaves_the_count_of_the_others_right(connection: Recorded) -> None:
    connection.request_stream(b'"subscriptions/listen"', b"{}", Waiter())
    asked(connection)
    connection._take(MessageError("nonsense", id=b"1"))
    assert connection.in_flight == 1


def test_garbage_is_reported_a_few_times_and_then_no_more(caplog: pytest.LogCaptureFixture) -> None:
    connection = Recorded()
    with caplog.at_level(logging.WARNING):
        for _ in range(GARBAGE_REPORTS + 3):
            connection._take(MessageError("nonsense"))
    assert len(caplog.records) == GARBAGE_REPORTS


# --- the end


def test_at_the_end_everybody_who_waits_is_told_and_then_the_owner() -> None:
    order: list[str] = []

    class Last(Hearer):
        def closed(self, connection: Any, why: str) -> None:
            order.append(f"owner: {why}")

    class First(Waiter):
        def failed(self, problem: HearthError) -> None:
            order.append(f"waiter: {problem}")

    connection = Recorded(Last())
    connection.request(b'"m"', b"{}", First())
    connection.request_stream(b'"m"', b"{}", First())
    connection.end("it fell over")
    assert order == ["waiter: server 's' is gone", "waiter: server 's' is gone", "owner: it fell over"]
    assert connection.in_flight == 0


def test_a_refusal_has_the_question_s_id() -> None:
    question = json.parse(b'{"jsonrpc":"2.0","id":"q","method":"roots/list"}')
    assert json.loads(refusal(question, "nobody")) == {
        "jsonrpc": "2.0",
        "id": "q",
        "error": {"code": -32601, "message": "nobody"},
    }


def test_what_goes_wrong_over_one_answer_costs_neither_its_caller_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Clumsy(Waiter):
        def answered(self, message: json.Message) -> None:
            raise KeyError("oops")

    connection, clumsy = Recorded(), Clumsy()
    connection.request(b'"m"', b"{}", clumsy)
    _, other = asked(connection)
    freed: list[int] = []
    connection.on_free = lambda: freed.append(connection.in_flight)
    connection._take_all(json.parse(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number) for number in (1, 2))
    assert clumsy.told == [("failed", f"the answer of server {connection.name!r} could not be handled")]
    assert other.told == [("answered", {})]
    assert freed == [1, 0]
    assert "internal error over a message" in caplog.text


def test_a_request_is_open_until_the_server_answers_it() -> None:
    requests = AbandonedRequests()
    assert not requests
    requests.add(4, "ann")
    requests.add(5, "bob")
    requests.add(6, "bob")
    assert requests and requests.owners() == {"ann", "bob"}
    requests.answered(4)
    requests.answered(5)
    requests.answered(7)
    assert requests.owners() == {"bob"}
    requests.answered(6)
    assert not requests


def test_a_request_is_not_remembered_for_ever() -> None:
    requests = AbandonedRequests()
    requests.add(4, "ann", 0.0)
    assert requests
    assert requests.owners() == set()
    assert not requests


def test_of_too_many_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ABANDONED_LIMIT", 2)
    requests = AbandonedRequests()
    for number in (1, 2, 3):
        requests.add(number, number)
    assert requests.owners() == {2, 3}


def test_a_server_that_will_stop_has_noticed_when_it_answers_what_was_sent_later() -> None:
    requests = AbandonedRequests()
    requests.add(4, "ann", noticed_by=6)
    requests.add(5, "bob")
    requests.answered(5 - 2)
    assert requests.owners() == {"ann", "bob"}
    requests.answered(7)
    assert requests.owners() == {"bob"}
