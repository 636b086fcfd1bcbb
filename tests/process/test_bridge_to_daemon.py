"""The daemon's part of `hearth bridge --to`: its death in mid-call, who may name a target, what others see of it."""

import contextlib
import json
import os
import signal
import subprocess
from typing import Any

import pytest

from process.remote_bridge import bridge_to
from support.clients import FramesClient, frame, text_of
from support.daemon import Scratch, server
from support.kernel import BOUND_SECONDS, pids_at_home, until
from support.other_users import as_stranger, python, stranger
from support.scripted_daemon import Stage, scratch_home
from support.sites.legacy import LegacySite
from support.sites.modern import ModernSite

SITES = {"legacy": LegacySite, "modern": ModernSite}


def end(scratch: Scratch, pid: int) -> None:
    """End the daemon that a bridge has started, with its watcher."""
    os.kill(pid, signal.SIGTERM)
    until(lambda: not pids_at_home(str(scratch.home)), "the daemon has ended")


@pytest.mark.parametrize("kind", SITES)
def test_a_call_in_flight_when_the_daemon_is_killed_has_one_answer_and_does_not_run_twice(
    scratch: Scratch, kind: str
) -> None:
    site: LegacySite
    with SITES[kind]() as site, bridge_to(site.url, "--header", "X-Key: s3cret-key", scratch=scratch) as bridge:
        bridge.open()
        assert text_of(bridge.call("echo", text="before")) == "before"
        first = scratch.status()["pid"]
        id = bridge.begin("tools/call", name="hang", arguments={})
        until(lambda: len(site.seen("tools/call")) == 2, "the call is there")
        os.kill(first, signal.SIGKILL)
        lost = bridge.answer_to(id)["error"]["message"]
        assert "'hang'" in lost and "may or may not have run" in lost
        # The next daemon has been told of the target again, with its headers.
        assert text_of(bridge.call("echo", text="after")) == "after"
        assert len(site.seen("tools/call")) == 3
        assert site.requests[-1].headers["x-key"] == "s3cret-key"
        second = scratch.status()["pid"]
        assert second != first
        assert [message for message in bridge.leave() if "id" in message] == []
        end(scratch, second)


class Counting(ModernSite):
    """Has a tool that may run twice: the first call hangs, the second is answered."""

    async def _tools_list(self, request: Any, message: Any, reply: Any) -> None:
        tool = {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        await self._complete(reply, message, tools=[tool], ttlMs=0)

    async def _call_look(self, request: Any, message: Any, reply: Any) -> None:
        if len(self.seen("tools/call")) == 1:
            await reply.gone.wait()
        await self._call_echo(request, message, reply, text="seen")


def test_a_call_that_may_run_twice_is_made_again_when_the_daemon_was_killed(scratch: Scratch) -> None:
    with Counting() as site, bridge_to(site.url, scratch=scratch) as bridge:
        id = bridge.begin("tools/call", _modern=True, name="look", arguments={})
        until(lambda: site.seen("tools/call"), "the call is there")
        os.kill(scratch.status()["pid"], signal.SIGKILL)
        assert text_of(bridge.answer_to(id)) == "seen"
        assert len(site.seen("tools/call")) == 2
        second = scratch.status()["pid"]
        assert bridge.leave() == []
        end(scratch, second)


# --- what others see


def test_a_target_is_its_sessions_own_and_goes_with_it(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    with LegacySite() as one, LegacySite() as two:
        two.names = ["other"]
        words = ("--header", "Authorization: Bearer s3cret-token")
        with bridge_to(one.url, *words, scratch=scratch) as first, bridge_to(two.url, scratch=scratch) as second:
            first.open()
            second.open()
            listed = [tool["name"] for tool in first.ask("tools/list")["result"]["tools"]]
            assert "echo" in listed and not any("__" in name for name in listed)
            assert [tool["name"] for tool in second.ask("tools/list")["result"]["tools"]] == ["other"]
            assert second.call("echo", text="x")["error"]["code"] == -32602
            client = scratch.lines()
            client.initialize()
            assert all(name.startswith("echo__") for name in client.tools())
            status = scratch.status()
            assert [each["server"] for each in status["sessions"]] == ["to:127.0.0.1", "to:127.0.0.1", None]
            assert [each["to"] and each["to"]["state"] for each in status["sessions"]] == ["ready", "ready", None]
            assert [each["name"] for each in status["upstreams"]] == ["echo"]
            assert "s3cret-token" not in json.dumps(status)
            first.leave()
            until(lambda: len(one.deleted) == 1, "the target went with its session")
            assert two.deleted == []
            assert text_of(client.call("echo__echo", text="on")) == "on"
        until(lambda: len(two.deleted) == 1, "the target went with its session")
    assert "s3cret-token" not in scratch.logged()
    kept = [path.read_bytes() for path in scratch.home.rglob("*") if path.is_file() and path != scratch.log]
    assert not any(b"to:127.0.0.1" in data or b"s3cret" in data for data in kept)


def test_a_target_in_search_mode_is_searched(scratch: Scratch) -> None:
    with ModernSite() as site, bridge_to(site.url, "--mode", "search", scratch=scratch) as bridge:
        names = [tool["name"] for tool in bridge.ask("tools/list", _modern=True)["result"]["tools"]]
        assert "echo" not in names and len(names) == 5


# --- who may name one, and what of it is refused

SETTINGS = {"url": "http://127.0.0.1:1/mcp", "headers": [], "environ": {}}


def refusal_of(scratch: Scratch, settings: object, **keys: object) -> str:
    client = FramesClient(scratch.socket)
    payload = settings if isinstance(settings, bytes) else json.dumps(settings).encode()
    hello = {"type": "hello", "protocol": 2, "version": "0", "pid": 1, "cwd": "/", "to": True, **keys}
    client.send_frame(hello, payload)
    header, _ = client.receive_frame()
    client.close()
    assert header["type"] == "error"
    return header["message"]


def test_settings_that_cannot_be_used_are_refused(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    scratch.start()
    secret = "s3cret" * 3
    for settings, keys, words in (
        (SETTINGS, {"protocol": 1}, "--to needs frame protocol 2"),
        (SETTINGS, {"server": "echo"}, "both name a server"),
        ({**SETTINGS, "url": "ftp://x/"}, {}, "must begin with http://"),
        ({**SETTINGS, "url": "http://${HOST}/"}, {}, "takes no references"),
        ({**SETTINGS, "headers": [["X-Key", secret * 1000]]}, {}, "over the limit of 16384 bytes"),
        ({**SETTINGS, "headers": [[secret]]}, {}, "cannot be read"),
        ({**SETTINGS, "environ": {"http_proxy": secret * 4000}}, {}, "over the limit of 65536 bytes"),
        (b"[]", {}, "cannot be read"),
        (b'{"url":', {}, "cannot be read"),
    ):
        sentence = refusal_of(scratch, settings, **keys)
        assert words in sentence and secret not in sentence
    assert scratch.status()["sessions"] == []
    assert secret not in scratch.logged()


# Connects to the socket in its first word, sends the bytes of its second, and prints what comes back until the end.
_SEND = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(20)
sock.connect(sys.argv[1])
sock.sendall(bytes.fromhex(sys.argv[2]))
while data := sock.recv(65536):
    sys.stdout.buffer.write(data)
"""


def test_another_user_who_is_let_in_may_name_no_target(scratch: Scratch) -> None:
    scratch.configure(allowed_uids=[stranger().pw_uid, os.getuid()])
    scratch.start()
    for folder in (scratch.home, scratch.runtime, scratch.runtime / "mcp"):
        folder.chmod(0o755)
    os.chmod(scratch.socket, 0o666)
    hello = {"type": "hello", "protocol": 2, "version": "0", "pid": 1, "cwd": "/", "to": True}
    sent = frame(hello, json.dumps(SETTINGS).encode()).hex()
    command = as_stranger(python(), "-c", _SEND, scratch.socket, sent)
    said = subprocess.run(command, capture_output=True, timeout=BOUND_SECONDS, check=True).stdout
    assert b"--to is for the user of the daemon alone" in said
    assert scratch.status()["sessions"] == []


def test_an_older_daemon_is_told_of_with_what_to_do() -> None:
    refusal = "the bridge speaks frame protocol 2, this daemon (Hearth 0) speaks 1 to 1; restart the older of the two"
    with scratch_home() as home, contextlib.closing(Stage(home)) as stage:
        daemon = stage.daemon()
        bridge = stage.bridge("--to", "http://127.0.0.1:1/mcp")
        bridge.request(1)
        wire = daemon.accept()
        hello, settings = wire.read()
        assert (hello["protocol"], hello["to"]) == (2, True)
        assert json.loads(settings)["url"] == "http://127.0.0.1:1/mcp"
        wire.send({"type": "error", "message": refusal})
        wire.close()
        sentence = bridge.read()["error"]["message"]
        assert refusal in sentence and "--to needs a daemon of this version, which `hearth restart` starts" in sentence
        stage.bridge().request(1)
        assert "to" not in (said := daemon.accept().read()[0]) and said["protocol"] == 1


def test_headers_are_resolved_also_for_a_daemon_that_takes_no_more_lines() -> None:
    with scratch_home() as home, contextlib.closing(Stage(home)) as stage:
        daemon = stage.daemon()
        bridge = stage.bridge("--to", "http://127.0.0.1:1/mcp", "--header", "X-Home: ${env:HOME}")
        bridge.request(1)
        wire = daemon.accept()
        wire.greet(protocol=2)
        assert wire.read_line()[0]["seq"] == 1
        # A call that was taken before may need them still.
        wire.send({"type": "goodbye", "reconnect": True, "taken": 1, "reason": "restart"})
        wire.send({"type": "headersWanted", "ask": 7})
        header, payload = wire.read()
        assert header == {"type": "headers", "re": 7}
        assert json.loads(payload) == {"headers": [["X-Home", str(home)]]}
        wire.answer(1, 1)
        assert bridge.read()["id"] == 1


def test_a_bridge_of_the_former_protocol_goes_on_working(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    scratch.start()
    client = FramesClient(scratch.socket)
    assert client.hello(protocol=1)["protocol"] == 1
    client.close()
