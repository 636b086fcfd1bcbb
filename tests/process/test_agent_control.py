"""Commands about agents by control frames and by HTTP, with a real daemon and the scripted agent."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from support.agents.launching import ECHO_AGENT
from support.clients import FramesClient
from support.daemon import Daemon, Scratch
from support.http.clients import HttpClient, Response
from support.kernel import BOUND_SECONDS, until

API = "/api/v1/agents"
EVENTS = {"Accept": "text/event-stream"}


def configure(scratch: Scratch, settings: str = "", options: tuple[str, ...] = ()) -> None:
    arguments = ["-S", ECHO_AGENT, "--modes", *options]
    scratch.write_config(
        f'{settings}idle_timeout = 0\n[packs.agents]\nenabled = true\n[agents]\ndefault_provider = "echo"\n'
        f"[agents.providers.echo]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(arguments)}\n"
    )


@pytest.fixture
def daemon(scratch: Scratch) -> Iterator[Daemon]:
    configure(scratch)
    yield scratch.start()


@pytest.fixture
def http(scratch: Scratch, daemon: Daemon) -> HttpClient:
    return HttpClient(scratch, API)


def ask(client: FramesClient, verb: str, **arguments: object) -> Any:
    """Give a command by a control frame; return its result, or the refusal."""
    client.send_frame({"type": "agent", "seq": client.seq, "verb": verb}, json.dumps(arguments).encode())
    header, payload = client.receive_type("agent")
    return json.loads(payload) if header["ok"] else header["message"]


def create(http: HttpClient, scratch: Scratch, prompt: str) -> str:
    made = http.request("POST", {"prompt": prompt, "cwd": str(scratch.folder)})
    assert made.status == 200, made.text()
    return str(made.json()["agentId"])


def waited(http: HttpClient, id: str) -> dict[str, Any]:
    return http.request("POST", {"seconds": BOUND_SECONDS}, path=f"{API}/{id}/wait").json()


def entries(response: Response) -> Iterator[dict[str, Any]]:
    for event in response.events():
        assert event.message is not None
        assert event.name == event.message["kind"]
        yield event.message


# --- control frames


def test_frames_carry_arguments_longer_than_a_header(scratch: Scratch, daemon: Daemon) -> None:
    client = scratch.control()
    made = ask(client, "create", prompt="say " + "x" * 100_000, cwd=str(scratch.folder))
    assert made["turn"] == 1
    assert ask(client, "wait", agentId=made["agentId"], seconds=BOUND_SECONDS)["status"] == "idle"
    client.send_frame({"type": "agents", "seq": client.seq})
    header, payload = client.receive_type("agents")
    assert header["ok"] is True
    assert [each["id"] for each in json.loads(payload)["agents"]] == [made["agentId"]]


@pytest.mark.parametrize(
    ("verb", "arguments", "said"),
    [
        ("create", {"promt": "x"}, "unknown member 'promt'"),
        ("show", {}, "agentId is missing"),
        ("show", {"agentId": 5}, "agentId must be a text"),
        ("show", {"agentId": "a1"}, "Agent a1 not found"),
        ("prune", {"force": "yes"}, "force must be true or false"),
        ("wait", {"agentId": "a1", "seconds": -1}, "not found"),
        ("explode", {}, "there is no command 'explode'"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused_in_a_sentence(
    scratch: Scratch, daemon: Daemon, verb: str, arguments: dict[str, object], said: str
) -> None:
    assert said in ask(scratch.control(), verb, **arguments)


@pytest.mark.parametrize("payload", [b"[", b"[]", b"\xff"])
def test_arguments_that_are_no_object_are_refused_and_the_connection_goes_on(
    scratch: Scratch, daemon: Daemon, payload: bytes
) -> None:
    client = scratch.control()
    client.send_frame({"type": "agent", "seq": 1, "verb": "show"}, payload)
    header, _ = client.receive_type("agent")
    assert (header["ok"], "JSON object" in header["message"]) == (False, True)
    assert "missing" in ask(client, "show")


def test_a_wait_that_is_left_ends_and_the_agent_goes_on(scratch: Scratch, daemon: Daemon) -> None:
    client = scratch.control()
    id = ask(client, "create", prompt="sleep", cwd=str(scratch.folder))["agentId"]
    waiter = scratch.control()
    waiter.send_frame({"type": "agent", "seq": 1, "verb": "wait"}, json.dumps({"agentId": id}).encode())
    waiter.close()
    assert ask(client, "show", agentId=id)["status"] == "running"
    assert ask(client, "cancel", agentId=id) == {"success": True}


def test_a_log_that_is_followed_has_each_change_and_then_the_end(scratch: Scratch, daemon: Daemon) -> None:
    client = scratch.control()
    id = ask(client, "create", prompt="say hello", cwd=str(scratch.folder))["agentId"]
    ask(client, "wait", agentId=id, seconds=BOUND_SECONDS)
    follower = scratch.control()
    body = json.dumps({"agentId": id, "follow": True}).encode()
    follower.send_frame({"type": "agentLog", "seq": 7}, body)
    header, payload = follower.receive_type("agentLog")
    kept = json.loads(payload)
    assert (header["re"], header["more"]) == (7, True)
    assert [each["kind"] for each in kept] == ["user", "message", "state"]
    assert (kept[1]["text"], kept[2]["status"], kept[2]["turn"]) == ("hello", "idle", 1)
    assert kept[2]["endedTurns"] == [{"turn": 1, "status": "idle", "aborted": None, "lastError": None}]
    assert ask(client, "send", agentId=id, prompt="fail")["turn"] == 2
    ask(client, "kill", agentId=id)
    found = []
    while header["more"]:
        header, payload = follower.receive_type("agentLog")
        found += json.loads(payload)
    assert found[-1]["status"] == "closed"


def test_a_creation_is_refused_when_the_pack_is_switched_off_meanwhile(scratch: Scratch, daemon: Daemon) -> None:
    configure(scratch, options=("--no-answer", "initialize"))
    client = scratch.control()
    assert client.control("reload")[0]["ok"]
    client.send_frame({"type": "agent", "seq": 1, "verb": "create"}, json.dumps({"cwd": "/"}).encode())
    watcher = scratch.control()
    until(lambda: has_process(watcher), "its process runs")
    scratch.write_config("idle_timeout = 0\n")
    assert watcher.control("reload")[0]["ok"]
    header, _ = client.receive_type("agent")
    assert (header["ok"], "was switched off" in header["message"]) == (False, True)


def has_process(client: FramesClient) -> bool:
    client.send_frame({"type": "agents", "seq": client.seq})
    return any(each["pid"] for each in json.loads(client.receive_type("agents")[1])["agents"])


def test_without_the_pack_nothing_of_it_is_loaded(scratch: Scratch) -> None:
    scratch.serve({})
    client = scratch.control()
    client.send_frame({"type": "agents", "seq": 1})
    header, _ = client.receive_type("agents")
    assert "hearth pack enable agents" in header["message"]
    assert HttpClient(scratch, API).request("GET").status == 404


def test_over_tcp_the_token_comes_before_a_prompt_of_any_size(scratch: Scratch) -> None:
    configure(scratch, 'listen = "tcp:127.0.0.1:0"\n')
    scratch.start()
    with open(scratch.folder / "prompt", "w+", encoding="utf-8") as file:
        file.write("say " + "x" * 300_000)
        file.seek(0)
        command = [sys.executable, "-I", "-m", "hearth", "agent", "run", "--json", "-"]
        done = subprocess.run(
            command, stdin=file, env=scratch.environment(), capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "idle"


# --- HTTP


def test_an_agent_is_created_watched_prompted_and_ended_by_http(http: HttpClient, scratch: Scratch) -> None:
    id = create(http, scratch, "say hello")
    assert waited(http, id)["lastMessage"] == "hello"
    assert http.request("POST", {"prompt": "say more"}, path=f"{API}/{id}/send").json()["success"] is True
    assert waited(http, id)["lastMessage"] == "more"
    (listed,) = http.request("GET").json()["agents"]
    shown = http.request("GET", path=f"{API}/{id}").json()
    assert listed["id"] == shown["snapshot"]["id"] == id
    found = http.request("GET", path=f"{API}/{id}/log?count=1").json()["entries"]
    assert [each["text"] for each in found] == ["more"]
    assert http.request("POST", {"modeId": "plan"}, path=f"{API}/{id}/mode").json()["newMode"] == "plan"
    assert http.request("POST", {}, path=f"{API}/{id}/kill").json() == {"success": True}
    assert http.request("GET").json() == {"agents": []}
    assert len(http.request("GET", path=f"{API}?all=1").json()["agents"]) == 1
    assert http.request("POST", {}, path=f"{API}/prune").json()["removed"] == [id]


def test_permissions_are_listed_and_decided_by_http(http: HttpClient, scratch: Scratch) -> None:
    id = create(http, scratch, "ask execute")
    assert waited(http, id)["permission"]["name"] == "Bash"
    (asked,) = http.request("GET", path=f"{API}/permissions").json()["permissions"]
    answer = {"requestId": asked["request"]["id"], "behavior": "allow"}
    assert http.request("POST", answer, path=f"{API}/{id}/respond").json() == {"success": True}
    assert waited(http, id)["lastMessage"] == "selected allow"


def test_a_log_is_a_stream_of_events(http: HttpClient, scratch: Scratch) -> None:
    id = create(http, scratch, "say hello\nask execute\nsay bye")
    stream = entries(http.request("GET", headers=EVENTS, path=f"{API}/{id}/log?follow=1"))
    asked = next(each for each in stream if each["kind"] == "state" and each["pendingPermissions"])
    answer = {"requestId": asked["pendingPermissions"][0]["id"], "behavior": "deny"}
    http.request("POST", answer, path=f"{API}/{id}/respond")
    texts = []
    for each in stream:
        if each["kind"] == "message":
            texts.append(each["text"])
        elif each["kind"] == "state" and each["status"] == "idle":
            break
    assert texts[-1].endswith("bye")
    http.request("POST", {}, path=f"{API}/{id}/kill")
    assert [each["status"] for each in stream][-1] == "closed"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/a1", None, 404),
        ("POST", "/a1/kill", {}, 404),
        ("GET", "/a1/kill", None, 405),
        ("DELETE", "", None, 405),
        ("POST", "/a1/explode", {}, 404),
        ("POST", "/a1/create", {}, 404),
        ("POST", "", {"prompt": 5}, 400),
        ("POST", "", [], 400),
        ("POST", "/a1/mode", {"agentId": "a2"}, 400),
        ("POST", "", {"prompt": "x", "provider": "ecko"}, 422),
        ("GET", "/a1/log?count=x", None, 400),
        ("GET", "?all=maybe", None, 400),
        ("GET", "/a1/log/more", None, 404),
    ],
)
def test_a_request_that_cannot_be_served_says_so(
    http: HttpClient, method: str, path: str, body: object, status: int
) -> None:
    refused = http.request(method, body, path=f"{API}{path}")
    assert refused.status == status
    assert refused.json()["error"]["message"]


def test_no_page_of_another_site_can_start_an_agent(http: HttpClient) -> None:
    assert http.request("POST", b'{"prompt":"x"}', {"Content-Type": "text/plain"}).status == 415
    assert http.request("POST", {"prompt": "x"}, {"Origin": "https://example.org"}).status == 403
    assert http.request("GET").json() == {"agents": []}


def test_a_follower_ends_with_the_daemon_and_holds_nothing_up(
    http: HttpClient, scratch: Scratch, daemon: Daemon
) -> None:
    id = create(http, scratch, "sleep")
    stream = http.request("GET", headers=EVENTS, path=f"{API}/{id}/log?follow=1")
    assert next(entries(stream))["kind"] in ("user", "state")
    assert daemon.stop() == 0
    assert list(stream.events()) is not None


def test_many_logs_of_a_busy_agent_are_followed_to_their_end(http: HttpClient, scratch: Scratch) -> None:
    id = create(http, scratch, "sleep 0.2\nstream 2000\nsay end")
    streams = [http.request("GET", headers=EVENTS, path=f"{API}/{id}/log?follow=1") for _ in range(5)]
    for stream in streams:
        last = ""
        for each in entries(stream):
            if each["kind"] == "message":
                last = each["text"]
            elif each["kind"] == "state" and each["status"] == "idle":
                break
        assert last.endswith("1999 end")
    until(lambda: waited(http, id)["status"] == "idle", "the agent rests")
