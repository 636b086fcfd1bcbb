"""Verbs that look never light a daemon: the socket is held as systemd holds it, and nobody may knock."""

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from e2e.cli_home import Home, write

LOOKING = [
    ("status",),
    ("status", "--json"),
    ("sessions",),
    ("upstreams",),
    ("stop", "--yes"),
    ("restart", "--yes"),
    ("reload", "--yes"),
    ("logs",),
    ("doctor",),
    ("connect", "--print"),
]


@pytest.fixture
def listener(home: Home) -> Iterator[socket.socket]:
    """The socket as an activating manager holds it: listening, and nobody accepts."""
    os.makedirs(os.path.dirname(home.socket), 0o700)
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(home.socket)
        held.listen()
        yield held


def somebody_knocked(listener: socket.socket) -> bool:
    waiter = select.poll()
    waiter.register(listener, select.POLLIN)
    return bool(waiter.poll(0))


def write_registry(home: Home, pid: int, start_time: int) -> None:
    os.makedirs(os.path.dirname(home.registry), 0o700, exist_ok=True)
    entry = {
        "daemonId": "gone", "endpoint": home.socket, "pid": pid, "startTime": start_time, "startedAt": 1.0,
        "version": "0.1.0", "protocol": 1, "configHash": "",
    }  # fmt: skip
    write(home.registry, json.dumps(entry))


def pid_of_somebody_dead() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_the_probe_itself_sees_a_connection(listener: socket.socket, home: Home) -> None:
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.connect(home.socket)
        assert somebody_knocked(listener)


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_an_unlit_socket_is_not_connected_to(home: Home, listener: socket.socket, words: tuple[str, ...]) -> None:
    done = home.run(*words)
    assert done.returncode in {0, 1}, done.stderr
    assert "Traceback" not in done.stderr
    assert not somebody_knocked(listener)


def test_completion_does_not_connect(home: Home, listener: socket.socket) -> None:
    home.complete("hearth status --profile ")
    assert not somebody_knocked(listener)


@pytest.mark.parametrize("case", ["dead", "reused"])
def test_a_registry_that_names_nobody_alive_is_not_believed(home: Home, listener: socket.socket, case: str) -> None:
    # A reused pid is one that lives, but began at another time than the entry says.
    write_registry(home, pid_of_somebody_dead() if case == "dead" else os.getpid(), start_time=1)
    document = home.json("status", "--json")
    assert (document["running"], document["pid"]) == (False, None)
    assert not somebody_knocked(listener)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"pid": "x"}', "[" * 100_000])
def test_a_registry_that_cannot_be_read_means_that_nothing_is_known(home: Home, content: str) -> None:
    write_registry(home, 1, 1)
    write(home.registry, content)
    assert home.json("status", "--json")["running"] is False


def test_status_says_that_nothing_runs_and_what_would_light_it(home: Home) -> None:
    said = home.ok("status")
    assert "hearth is not running" in said
    assert "The first bridge starts it" in said
    document = home.json("status", "--json")
    assert document["running"] is False
    assert document["sessions"] == document["upstreams"] == []
    assert document["lights"] in said


def test_stopping_restarting_or_reloading_nothing_is_done_already(home: Home) -> None:
    for verb in ("stop", "restart", "reload"):
        assert "hearth is not running" in home.ok(verb)


def test_no_log_yet_is_one_sentence(home: Home) -> None:
    assert home.fails(1, "logs").startswith("hearth: there is no log yet")
