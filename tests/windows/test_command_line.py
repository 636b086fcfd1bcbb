"""`hearth` as typed, on Windows."""

import ctypes
import json
import subprocess
import sys
from ctypes import wintypes

import pytest
from house import DEMO, LIMIT_SECONDS, House, is_gone

from hearth.bridge.spawn_windows import quoted


def hearth(house: House, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-I", "-m", "hearth", *words, "--config", str(house.config)]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=LIMIT_SECONDS, check=False
    )


def test_a_daemon_is_looked_at_used_and_stopped_by_typing(house: House) -> None:
    house.write(demo=DEMO)
    assert json.loads(hearth(house, "status", "--json").stdout)["running"] is False
    assert house.entry() is None
    assert hearth(house, "call", "demo", "add", "a=1", "b=2").stdout.strip() == "3"
    status = json.loads(hearth(house, "status", "--json").stdout)
    assert (status["pid"], status["endpoint"], status["activation"]) == (house.pid(), house.places.socket, "self")
    examined = hearth(house, "doctor", "--json")
    assert (examined.returncode, "socket.file" in examined.stdout) == (0, True), examined.stdout
    assert f"as pid {house.pid()}" in hearth(house, "logs").stdout
    assert "is in force" in hearth(house, "reload").stdout
    pid = house.pid()
    stopped = hearth(house, "stop", "--yes")
    assert (stopped.returncode, f"Stopped (pid {pid})" in stopped.stdout) == (0, True), stopped.stderr
    assert is_gone(pid)
    assert house.entry() is None


def test_the_demo_shows_what_it_promises() -> None:
    command = [sys.executable, "-I", "-m", "hearth", "demo", "--agents", "2", "--json"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("word", ["x", "", "a b", 'say "so"', "end\\", "a b\\", 'c:\\d\\"e f', "tab\there", '\\\\"'])
def test_a_word_that_the_bridge_quotes_arrives_as_it_was(word: str) -> None:
    assert words_of(f"python.exe {quoted(word)} {quoted(word)}") == ["python.exe", word, word]


def words_of(line: str) -> list[str]:
    """How Windows itself takes a command line apart."""
    split = ctypes.WinDLL("shell32").CommandLineToArgvW
    split.argtypes = (wintypes.LPCWSTR, ctypes.POINTER(ctypes.c_int))
    split.restype = ctypes.POINTER(wintypes.LPWSTR)
    count = ctypes.c_int()
    found = split(line, ctypes.byref(count))
    return [str(found[at]) for at in range(count.value)]
