"""Daemons that follow each other while a client of HTTP stays."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from support.clients import text_of
from support.daemon import Daemon, Scratch
from support.http.clients import Event, LegacyHttp, Message
from support.kernel import is_gone, until


def go_out(daemon: Daemon) -> None:
    """By a word."""
    assert daemon.stop() == 0


def kill(daemon: Daemon) -> None:
    """Without one."""
    pid = daemon.pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(pid), "the daemon is dead")
    daemon.wait()


End = Callable[[Daemon], None]
ENDS: tuple[End, ...] = (go_out, kill)


def folder(scratch: Scratch) -> Path:
    """Where sessions are kept."""
    return scratch.home / ".local" / "state" / "hearth" / "sessions" / "mcp"


def files(scratch: Scratch) -> list[Path]:
    return sorted(folder(scratch).glob("*.json"))


def http_sessions(scratch: Scratch) -> list[Message]:
    """The legacy sessions over HTTP that the daemon knows."""
    return [each for each in scratch.status()["sessions"] if each["wire"] == "http" and each["era"] == "legacy"]


def echoes(client: LegacyHttp, text: str = "hello", id: object = 1) -> bool:
    """Whether the client is served as ever."""
    got = client.call("echo__echo", id=id, text=text)
    return got.status == 200 and text_of(got.messages()[-1]) == text


def told(event: Event) -> str:
    """The method of what came as an event."""
    assert event.message is not None
    return str(event.message["method"])
