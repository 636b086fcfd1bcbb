"""Sessions over HTTP that are left alone: opened and never used, or with requests that get no result."""

import json
import threading
from collections.abc import Callable

import pytest

from support.daemon import Scratch, server
from support.http.clients import BOTH, Connection, LegacyHttp, Response
from support.http.sessions import echoes, files, http_sessions, kill
from support.puppets.stage import Actor, Stage

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "puppet__act", "arguments": {}}}


class Pending:
    """A request whose answer is yet to come."""

    def __init__(self, ask: Callable[[], Response]) -> None:
        self._got: list[Response] = []
        self._thread = threading.Thread(target=lambda: self._got.append(ask()))
        self._thread.start()

    def response(self) -> Response:
        self._thread.join()
        [found] = self._got
        return found


def opened(stage: Stage, version: str = "2025-11-25") -> LegacyHttp:
    return LegacyHttp(stage.scratch).opened(version)


def cancel(client: LegacyHttp, id: int = 7) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
    assert client.request("POST", message).status == 202


def test_a_request_in_flight_when_its_session_is_ended_gets_an_error(stage: Stage, actor: Actor) -> None:
    client = opened(stage)
    pending = Pending(lambda: client.request("POST", CALL))
    actor.next("tools/call")
    assert client.request("DELETE").status == 204
    got = pending.response()
    assert (got.status, got.is_stream) == (200, False)
    answer = got.json()
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)
    assert "the session was ended" in answer["error"]["message"]


def test_one_that_has_a_stream_already_gets_the_error_on_it(stage: Stage, actor: Actor) -> None:
    client = opened(stage)
    pending = Pending(lambda: client.call("puppet__act", id=7, meta={"progressToken": "p"}))
    puppet, call = actor.next("tools/call")
    puppet.notify("notifications/progress", progressToken=call["params"]["_meta"]["progressToken"], progress=1)
    got = pending.response()
    assert got.is_stream
    assert client.request("DELETE").status == 204
    [progress, answer] = got.messages()
    assert progress["method"] == "notifications/progress"
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)


def test_each_request_of_a_batch_gets_the_error(stage: Stage, actor: Actor) -> None:
    client = opened(stage, "2025-03-26")
    notice = {"jsonrpc": "2.0", "method": "notifications/nothing"}
    pending = Pending(lambda: client.request("POST", [CALL, notice, {**CALL, "id": "b"}]))
    for _ in range(2):
        actor.next("tools/call")
    assert client.request("DELETE").status == 204
    answers = json.loads(pending.response().text())
    assert [(each["id"], each["error"]["code"]) for each in answers] == [(7, -32603), ("b", -32603)]


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_request_that_is_cancelled_gets_a_stream_that_ends_without_data(
    stage: Stage, actor: Actor, version: str
) -> None:
    client = opened(stage, version)
    pending = Pending(lambda: client.request("POST", CALL))
    actor.next("tools/call")
    cancel(client)
    got = pending.response()
    # No event id, either: its client would come back for the rest.
    assert (got.status, got.is_stream, got.text()) == (200, True, "")
    assert client.post("ping").status == 200


def test_so_does_a_batch_all_of_which_is_cancelled(stage: Stage, actor: Actor) -> None:
    client = opened(stage, "2025-03-26")
    pending = Pending(lambda: client.request("POST", [CALL, {**CALL, "id": 8}]))
    for _ in range(2):
        actor.next("tools/call")
    cancel(client, 7)
    cancel(client, 8)
    got = pending.response()
    assert (got.status, got.is_stream, got.text()) == (200, True, "")


def test_an_answer_for_which_its_client_cannot_come_back_is_not_kept(stage: Stage, actor: Actor) -> None:
    client = opened(stage)
    epoch = (next(client.request("GET").events()).id or "").partition("-")[0]
    leaving = Connection(stage.scratch.socket)
    usual = {"Accept": BOTH, "Content-Type": "application/json", **client.headers}
    leaving.request("POST", "/mcp", json.dumps(CALL), usual)
    puppet, call = actor.next("tools/call")
    leaving.close()
    # Served behind the end of that connection.
    assert client.post("ping").status == 200
    puppet.say(call, "nobody hears it")
    pending = Pending(lambda: client.call("puppet__act", id=8))
    puppet, call = actor.next("tools/call")
    puppet.say(call, "heard")
    assert pending.response().status == 200
    # Nobody was told these ids.
    for number in range(1, 10):
        assert client.request("GET", headers={"Last-Event-ID": f"{epoch}-{number}-{b'7'.hex()}-0"}).status == 400


# More than may be there at once (max_connections), and more than are kept on disk.
OPENINGS = 1300
OPENING = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "flood", "version": "1"}},
}


def flood(connection: Connection, count: int) -> None:
    """Open so many sessions, and do nothing with them."""
    headers = {"Content-Type": "application/json", "Accept": BOTH}
    for _ in range(count):
        connection.request("POST", "/mcp", json.dumps(OPENING), headers)
        response = connection.getresponse()
        assert response.status == 200 and response.headers["Mcp-Session-Id"]
        response.read()


def test_a_session_in_use_outlasts_a_flood_of_openings(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    busy, quiet = LegacyHttp(scratch), LegacyHttp(scratch)
    for client in (busy, quiet):
        client.open()
        assert echoes(client)
    connection = scratch.own(Connection(scratch.socket))
    for turn in range(10):
        flood(connection, OPENINGS // 10)
        assert echoes(busy, text=f"turn {turn}")
    # One that was used before it, and not since, is still there too: it need not come back from disk.
    assert echoes(quiet)
    assert "the session goes on here" not in scratch.logged()
    assert len(http_sessions(scratch)) == 1024 and len(files(scratch)) <= 1000
    assert "make room for others" in scratch.logged() and "sessions over HTTP are over" in scratch.logged()
    kill(daemon)
    scratch.start()
    assert echoes(busy) and echoes(quiet)
