"""A legacy session over HTTP outlives the daemon: its client goes on with its id, and all is set as it was."""

import json
import os
import socket
import threading

import pytest

from support.clients import text_of
from support.daemon import COMMAND, Daemon, Scratch, handing_over, server
from support.http.clients import LegacyHttp, Message
from support.http.sessions import ENDS, End, echoes, files, go_out, http_sessions, kill, told
from support.puppets.stage import Actor, Stage

EACH_END = pytest.mark.parametrize("end", ENDS)
CHANGED = {
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
}
URI = "test://one"
OFFERS = {"resources": [{"uri": URI, "name": "one"}]}


def start(scratch: Scratch, **settings: object) -> Daemon:
    scratch.configure({"echo": server("echo")}, **settings)
    return scratch.start()


@EACH_END
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_client_goes_on_with_its_id_in_the_next_daemon(scratch: Scratch, end: End, version: str) -> None:
    daemon = start(scratch)
    client = LegacyHttp(scratch).opened(version, {"roots": {}})
    [before] = http_sessions(scratch)
    end(daemon)
    scratch.start()
    assert echoes(client)
    [after] = http_sessions(scratch)
    same = ("client", "era", "version", "role", "agentId", "server", "mode")
    assert {key: before[key] for key in same} == {key: after[key] for key in same}
    # Batches are of one revision only: that it was negotiated is known.
    batch = [{"jsonrpc": "2.0", "id": 7, "method": "ping"}]
    assert client.request("POST", batch).status == (200 if version == "2025-03-26" else 400)


def test_who_opened_it_is_who_it_belongs_to_in_the_next_daemon(scratch: Scratch) -> None:
    daemon = start(scratch)
    client = LegacyHttp(scratch, "/mcp/echo?role=lead&agent=a-1&mode=full").opened()
    go_out(daemon)
    scratch.start()
    bare = LegacyHttp(scratch, "/mcp/echo")
    bare.headers.update(client.headers)
    assert text_of(bare.call("echo", text="x").json()) == "x"
    [found] = http_sessions(scratch)
    assert (found["role"], found["agentId"], found["server"], found["mode"]) == ("lead", "a-1", "echo", "full")


def test_a_socket_that_somebody_holds_keeps_the_client_waiting_for_the_next_daemon(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")}, idle_timeout=0.3)
    os.makedirs(os.path.dirname(scratch.socket), mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(scratch.socket)
        listener.listen()
        command = handing_over(listener, COMMAND)
        first = scratch.start(command=command, fds=(listener.fileno(),))
        client = LegacyHttp(scratch).opened()
        # Nobody asks anything: it goes out.
        assert first.wait() == 0
        served: list[bool] = []
        waiting = threading.Thread(target=lambda: served.append(echoes(client)))
        waiting.start()
        scratch.start(command=command, fds=(listener.fileno(),))
        waiting.join()
        assert served == [True]


def test_a_daemon_that_went_out_when_idle_is_followed_by_one_that_a_bridge_lights(scratch: Scratch) -> None:
    first = start(scratch, idle_timeout=0.3)
    client = LegacyHttp(scratch).opened()
    assert first.wait() == 0
    # Nobody holds the socket: there is nobody to connect to until somebody lights a daemon.
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        client.post("ping")
    scratch.serve({"echo": server("echo")})
    assert echoes(client)


def test_a_daemon_that_hands_over_is_followed_without_a_new_opening(scratch: Scratch) -> None:
    first = start(scratch)
    client = LegacyHttp(scratch).opened()
    os.unlink(scratch.socket)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(scratch.socket)
        listener.listen()
        scratch.start(command=handing_over(listener, COMMAND), fds=(listener.fileno(),))
        assert first.wait() == 0
        assert echoes(client)


def test_hearth_restart_costs_no_session(scratch: Scratch) -> None:
    first = start(scratch)
    client = LegacyHttp(scratch).opened()
    assert scratch.hearth("restart", "--yes").returncode == 0
    assert first.wait() == 0
    # Whoever comes first lights the next one.
    scratch.start()
    assert echoes(client)


@EACH_END
def test_requests_at_once_restore_it_once(scratch: Scratch, end: End) -> None:
    daemon = start(scratch)
    client = LegacyHttp(scratch).opened()
    end(daemon)
    scratch.start()
    served: list[bool] = []
    askers = [threading.Thread(target=lambda turn=turn: served.append(echoes(client, id=turn))) for turn in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert served == [True] * 8
    assert len(http_sessions(scratch)) == 1
    assert scratch.logged().count("the session goes on here") == 1


def test_it_goes_on_through_many_daemons(scratch: Scratch) -> None:
    daemon = start(scratch)
    client = LegacyHttp(scratch).opened()
    for turn in range(4):
        ENDS[turn % 2](daemon)
        daemon = scratch.start()
        assert echoes(client, id=turn)
        # An id that was used before the first of them may be used again.
        assert client.post("ping", id=0).json()["result"] == {}
    assert len(files(scratch)) == 1


# --- what was set


def subscribed(actor: Actor, client: LegacyHttp, uri: str = URI) -> None:
    done: list[Message] = []
    asking = threading.Thread(target=lambda: done.extend(client.post("resources/subscribe", {"uri": uri}).messages()))
    asking.start()
    puppet, request = actor.next("resources/subscribe")
    puppet.answer(request)
    asking.join()
    assert done[0]["result"] == {}


@EACH_END
def test_a_subscriber_is_told_by_the_next_daemon(stage: Stage, end: End) -> None:
    actor = stage.serve(**OFFERS)
    client = LegacyHttp(stage.scratch).opened()
    subscribed(actor, client)
    end(stage.daemon)
    stage.daemon = stage.scratch.start()
    general = client.request("GET").events()
    puppet, request = actor.next("resources/subscribe")
    assert request["params"]["uri"] == URI
    puppet.answer(request)
    # Its lists may be others now.
    events = [next(event for event in general if event.message) for _ in range(3)]
    assert {told(event) for event in events} == CHANGED
    puppet.notify("notifications/resources/updated", uri=URI)
    update = next(general).message
    assert update is not None and update["params"]["uri"] == URI


def test_of_one_server_alone_its_client_is_told_of_the_lists_that_it_has(scratch: Scratch) -> None:
    daemon = scratch.serve({"change": server("changing")})
    client = LegacyHttp(scratch, "/mcp/change").opened()
    # What the server has is known from now on.
    client.post("tools/list").json()
    client.headers.clear()
    assert set(client.open()["capabilities"]) == {"tools"}
    go_out(daemon)
    scratch.start()
    general = client.request("GET").events()
    assert next(general).message is None
    client.post("tools/list").json()
    client.call("grow", name="leaf").messages()
    assert [told(next(general)) for _ in range(2)] == ["notifications/tools/list_changed"] * 2


def test_who_subscribed_no_longer_is_not_subscribed_again(stage: Stage) -> None:
    actor = stage.serve(**OFFERS)
    client = LegacyHttp(stage.scratch).opened()
    subscribed(actor, client)
    assert client.post("resources/unsubscribe", {"uri": URI}).json()["result"] == {}
    [file] = files(stage.scratch)
    assert URI not in file.read_text()
    go_out(stage.daemon)
    stage.daemon = stage.scratch.start()
    assert client.post("resources/list").json()["result"]["resources"]
    assert actor.told("resources/subscribe") == [{"uri": URI}]


@EACH_END
def test_the_level_of_messages_is_what_its_client_has_set(stage: Stage, end: End) -> None:
    actor = stage.serve()
    client = LegacyHttp(stage.scratch).opened()
    assert client.post("logging/setLevel", {"level": "error"}).json()["result"] == {}
    end(stage.daemon)
    stage.daemon = stage.scratch.start()
    heard: list[Message] = []
    calling = threading.Thread(target=lambda: heard.extend(client.call("puppet__act").messages()))
    calling.start()
    puppet, call = actor.next("tools/call")
    for level in ("info", "error"):
        puppet.notify("notifications/message", level=level, data=level)
    puppet.say(call, "done")
    calling.join()
    assert [each["params"]["level"] for each in heard[:-1]] == ["error"]
    assert actor.told("logging/setLevel") == [{"level": "error"}]


def test_what_was_set_in_a_batch_is_set(stage: Stage) -> None:
    actor = stage.serve()
    client = LegacyHttp(stage.scratch).opened("2025-03-26")
    level = {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "alert"}}
    assert client.request("POST", [level, {**level, "id": 2}]).status == 200
    kill(stage.daemon)
    stage.daemon = stage.scratch.start()
    calling = threading.Thread(target=lambda: client.call("puppet__act").messages())
    calling.start()
    puppet, call = actor.next("tools/call")
    puppet.say(call, "done")
    calling.join()
    assert actor.told("logging/setLevel") == [{"level": "alert"}]


def test_what_its_client_can_be_asked_is_known(stage: Stage) -> None:
    actor = stage.serve()
    client = LegacyHttp(stage.scratch).opened(capabilities={"elicitation": {}})
    kill(stage.daemon)
    stage.daemon = stage.scratch.start()
    answered: list[Message] = []

    def call() -> None:
        events = client.call("puppet__act").events()
        asked = next(event.message for event in events if event.message)
        reply = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}
        assert client.request("POST", reply).status == 202
        answered.extend(event.message for event in events if event.message)

    calling = threading.Thread(target=call)
    calling.start()
    puppet, request = actor.next("tools/call")
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    puppet.ask("q", "elicitation/create", **form)
    assert actor.reply_to("q")["result"] == {"action": "decline"}
    puppet.say(request, "done")
    calling.join()
    assert [text_of(each) for each in answered] == ["done"]


def test_roots_that_were_told_are_not_asked_for_again(stage: Stage) -> None:
    actor = stage.serve(keys={"isolation": "workspace"})
    client = LegacyHttp(stage.scratch).opened(capabilities={"roots": {}})
    general = client.request("GET").events()
    roots = [{"uri": stage.scratch.home.as_uri(), "name": "home"}]

    def answer() -> None:
        asked = next(event.message for event in general if event.message)
        assert asked["method"] == "roots/list"
        client.request("POST", {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}})

    def known(is_asked: bool) -> object:
        """What the server is told in a call of the client's."""
        calling = threading.Thread(target=lambda: client.call("puppet__act").messages())
        calling.start()
        if is_asked:
            answer()
        puppet, call = actor.next("tools/call")
        puppet.ask("r", "roots/list")
        found = actor.reply_to("r")["result"]["roots"]
        puppet.say(call, "done")
        calling.join()
        return found

    assert known(is_asked=True) == roots
    go_out(stage.daemon)
    stage.daemon = stage.scratch.start()
    # Nobody would read the question.
    assert known(is_asked=False) == roots
    [file] = files(stage.scratch)
    assert json.loads(file.read_text())["roots"]


# --- what does not go on


def test_a_session_that_was_deleted_is_over_in_every_daemon(scratch: Scratch) -> None:
    daemon = start(scratch)
    one, other = LegacyHttp(scratch), LegacyHttp(scratch)
    for each in (one, other):
        each.open()
    assert one.request("DELETE").status == 204
    kill(daemon)
    scratch.start()
    assert one.post("ping").status == 404
    # One that is only on disk is deleted there.
    assert other.request("DELETE").status == 204
    assert other.request("DELETE").status == 404
    assert (other.post("ping").status, files(scratch), http_sessions(scratch)) == (404, [], [])


def test_a_server_that_is_no_longer_there_has_no_sessions(scratch: Scratch) -> None:
    daemon = start(scratch)
    client = LegacyHttp(scratch, "/mcp/echo").opened()
    go_out(daemon)
    scratch.serve({"other": server("echo")})
    assert client.post("ping").status == 404
    assert client.request("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, path="/mcp/other").status == 404
    scratch.configure({"echo": server("echo")})
    scratch.control().control("reload")
    assert client.post("ping").status == 200


def test_those_that_were_used_longest_ago_make_room_and_come_back(scratch: Scratch) -> None:
    start(scratch, max_connections=4)
    clients = [LegacyHttp(scratch) for _ in range(7)]
    for client in clients:
        client.open()
        client.close()
    assert len(http_sessions(scratch)) == 4
    for client in clients:
        assert echoes(client)
        client.close()
    assert len(files(scratch)) == 7
