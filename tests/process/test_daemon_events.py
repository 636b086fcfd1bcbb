"""Events of a real daemon: by control frames, by `hearth events` and by HTTP."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.clients import FramesClient, Message
from support.daemon import Daemon, Scratch, server
from support.http.clients import HttpClient, bearer, port_of
from support.kernel import BOUND_SECONDS, until

SECRET = "not-for-the-events"


@pytest.fixture
def daemon(scratch: Scratch) -> Iterator[Daemon]:
    scratch.configure({"echo": server("echo")})
    yield scratch.start()


def following(client: FramesClient) -> Iterator[Message]:
    """Follow from now on: the daemon has answered when this returns."""
    header, payload = client.control("events", follow=True, count=0)
    assert (header["ok"], header["more"], payload) == (True, True, b"[]")
    return _later_events(client)


def _later_events(client: FramesClient) -> Iterator[Message]:
    more = True
    while more:
        header, payload = client.receive_type("events")
        more = header["more"]
        yield from json.loads(payload)


def events_verb(scratch: Scratch, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-I", "-m", "hearth", "events", *words]
    return subprocess.Popen(
        command, env=scratch.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_follower_sees_sessions_servers_and_calls_without_arguments(scratch: Scratch, daemon: Daemon) -> None:
    feed = following(scratch.control())
    with scratch.frames() as client:
        client.initialize()
        client.call("echo__echo", text=SECRET)
    found = []
    for event in feed:
        found.append(event)
        if event["type"] == "session.closed":
            break
    types = [event["type"] for event in found]
    wanted = ["session.opened", "server.started", "call.started", "call.finished", "session.closed"]
    assert [each for each in types if each in wanted] == wanted
    assert "owner.changed" in types
    finished = found[types.index("call.finished")]
    assert (finished["server"], finished["tool"], finished["isError"]) == ("echo", "echo", False)
    assert 0 <= finished["seconds"] < BOUND_SECONDS
    assert SECRET not in json.dumps(found)


def test_kept_events_have_no_calls_and_are_told_without_following(scratch: Scratch, daemon: Daemon) -> None:
    with scratch.frames() as client:
        client.initialize()
        client.call("echo__echo", text="x")
    header, payload = scratch.control().control("events")
    types = [event["type"] for event in json.loads(payload)]
    assert header["more"] is False
    assert "session.opened" in types and "server.started" in types
    assert not [each for each in types if each.startswith("call.")]


def test_a_client_s_name_is_cut_in_events(scratch: Scratch, daemon: Daemon) -> None:
    with scratch.frames() as client:
        info = {"name": "n" * 300_000, "version": "1"}
        client.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
    until(lambda: "session ended" in scratch.logged(), "the session ends")
    shown = json.loads(events_verb(scratch, "--json").communicate()[0].splitlines()[-1])
    assert (shown["type"], shown["client"]) == ("session.closed", "n" * 100)


def test_a_reload_is_an_event_also_when_it_is_refused(scratch: Scratch, daemon: Daemon) -> None:
    feed = following(scratch.control())
    scratch.reload()
    assert next(feed)["type"] == "config.reloaded"
    scratch.config.write_text("nonsense = [", encoding="utf-8")
    assert scratch.control().control("reload")[0]["ok"] is False
    refused = next(feed)
    assert refused["type"] == "config.reloaded" and refused["error"]


def test_a_restart_and_a_failure_of_a_server_are_events(scratch: Scratch) -> None:
    scratch.serve({"gone": {"command": "/does/not/exist"}, "echo": server("echo")})
    feed = following(scratch.control())
    assert scratch.control().control("restart", server="echo")[0]["ok"] is True
    assert next(feed) | {"at": 0} == {"type": "server.restarted", "server": "echo", "at": 0}
    with scratch.frames() as client:
        client.initialize()
        client.answer_to(client.begin("tools/list"))
        failed = next(event for event in feed if event["type"] == "server.failed")
    assert failed["server"] == "gone" and "/does/not/exist" in failed["reason"]


def test_a_follower_sees_the_end_of_the_daemon(scratch: Scratch, daemon: Daemon) -> None:
    verb = events_verb(scratch, "-f", "--json")
    with scratch.frames() as client:
        client.initialize()
    assert verb.stdout
    assert json.loads(verb.stdout.readline())["type"]
    daemon.process.send_signal(signal.SIGTERM)
    _, said = verb.communicate(timeout=BOUND_SECONDS)
    assert (verb.returncode, said) == (0, "")


def test_ctrl_c_ends_the_verb_without_a_failure(scratch: Scratch, daemon: Daemon) -> None:
    with scratch.frames() as client:
        client.initialize()
    verb = events_verb(scratch, "-f")
    assert verb.stdout and "session.opened" in verb.stdout.readline()
    verb.send_signal(signal.SIGINT)
    _, said = verb.communicate(timeout=BOUND_SECONDS)
    assert (verb.returncode, said.strip()) == (0, "")


def test_without_a_daemon_nothing_happens_and_none_is_started(scratch: Scratch) -> None:
    verb = events_verb(scratch)
    out, _ = verb.communicate(timeout=BOUND_SECONDS)
    assert (verb.returncode, "not running" in out) == (0, True)
    assert not scratch.registry.exists()


# --- /api/v1


def test_the_api_answers_questions(scratch: Scratch, daemon: Daemon) -> None:
    client = HttpClient(scratch)
    with scratch.frames() as session:
        session.initialize()
        session.answer_to(session.begin("tools/list"))
        assert client.request("GET", path="/api/v1/status").json()["pid"] == daemon.pid
        assert [each["wire"] for each in client.request("GET", path="/api/v1/sessions").json()["sessions"]] == [
            "frames"
        ]
        assert [each["name"] for each in client.request("GET", path="/api/v1/servers").json()["servers"]] == ["echo"]
        found = client.request("GET", path="/api/v1/tools?query=echo&limit=1").json()
        assert [each["tool"] for each in found["tools"]] == ["echo"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("GET", "/api/v1/nothing", {}, 404, "not_found"),
        ("GET", "/api/v1/restart", {}, 404, "not_found"),
        ("GET", "/api/v1/tools?limit=x", {}, 400, "bad_request"),
        ("POST", "/api/v1/status", {}, 405, "method_not_allowed"),
        ("GET", "/api/v1/reload", {}, 405, "method_not_allowed"),
        ("POST", "/api/v1/reload", {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        ("POST", "/api/v1/shutdown", {}, 415, "unsupported_media_type"),
        ("GET", "/api/v1/status", {"Host": "evil.example"}, 403, "forbidden"),
        ("GET", "/api/v1/status", {"Origin": "https://evil.example"}, 403, "forbidden"),
    ],
)
def test_the_api_refuses_with_a_code_and_a_message(
    scratch: Scratch, daemon: Daemon, method: str, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    got = HttpClient(scratch).request(method, path=path, headers=headers)
    assert got.status == status
    error = got.json()["error"]
    assert error["code"] == code and error["message"]


def test_the_api_reloads_restarts_and_shuts_down(scratch: Scratch, daemon: Daemon) -> None:
    client = HttpClient(scratch)
    typed = {"Content-Type": "application/json"}

    def post(path: str, body: bytes = b"") -> tuple[int, Message]:
        got = client.request("POST", body, path=f"/api/v1/{path}", headers=typed)
        return got.status, got.json()

    assert post("reload")[0] == 200
    assert post("servers/echo/restart")[0] == 200
    assert post("servers/other/restart")[0] == 404
    assert post("shutdown", b"[]")[0] == 400
    # A command is not guessed: nothing of this shuts the daemon down.
    for body in (b'{"restart":"true"}', b'{"whenQuiet":true}', b'{"later":true}'):
        assert post("shutdown", body)[0] == 400
    assert post("reload", b'{"x":"%b"}' % (b"x" * 70_000))[0] == 413
    scratch.config.write_text("nonsense = [", encoding="utf-8")
    status, answer = post("reload")
    assert (status, answer["error"]["code"]) == (409, "config_refused")
    assert post("shutdown", b"{}")[0] == 200
    assert daemon.wait() == 0


def test_the_api_streams_events_and_ends_them_with_the_daemon(scratch: Scratch, daemon: Daemon) -> None:
    with scratch.frames() as client:
        client.initialize()
    got = HttpClient(scratch).request("GET", path="/api/v1/events?count=1", headers={"Accept": "text/event-stream"})
    assert got.is_stream
    stream = got.events()
    assert next(stream).name == "session.closed"
    with scratch.frames() as client:
        client.initialize()
        assert next(stream).name == "session.opened"
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert all(event.message for event in stream)


def test_the_api_at_a_port_wants_the_token(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    scratch.start("--http", "127.0.0.1:0")
    client = HttpClient(scratch, address=port_of(scratch))
    got = client.request("GET", path="/api/v1/status")
    assert (got.status, got.json()["error"]["code"]) == (401, "unauthorized")
    assert client.request("GET", path="/api/v1/status", headers=bearer(scratch)).status == 200
