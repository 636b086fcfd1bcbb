"""Asking launchd for its socket, by ctypes, from a library that stands in for it: launchd itself cannot run here."""

import ctypes
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from hearth.host.macos import launchd
from support.launchd.library import stand_in

Script = Callable[..., list[str]]

ASK = """
import ctypes, os, sys
from hearth.errors import StartError
from hearth.host.macos import launchd
try:
    found = launchd.take_listener(sys.argv[1])
except StartError as exc:
    print(exc)
else:
    if found is None:
        print("none")
    else:
        print(found.fileno(), found.family.name, os.get_inheritable(found.fileno()))
library = ctypes.CDLL(None)
print(library.stand_in_allocated(), library.stand_in_freed())
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        yield sock


@pytest.fixture
def ask(listener: socket.socket) -> Script:
    """A process with the library preloaded asks for a name; what it printed."""

    def asking(name: str = "mcp", **variables: object) -> list[str]:
        environment = {"LD_PRELOAD": stand_in(), **{key: str(value) for key, value in variables.items()}}
        done = subprocess.run(
            [sys.executable, "-I", "-c", ASK, name],
            env=environment,
            pass_fds=(listener.fileno(),),
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout.splitlines()

    return asking


def test_the_socket_is_taken_close_on_exec_and_the_array_is_given_back(ask: Script, listener: socket.socket) -> None:
    assert ask(STAND_IN_FD=listener.fileno()) == [f"{listener.fileno()} AF_UNIX False", "1 1"]


def test_a_process_that_launchd_did_not_start_has_no_socket_and_that_is_no_error(ask: Script) -> None:
    assert ask() == ["none", "0 0"]


def test_a_name_that_is_not_in_the_property_list_is_a_sentence(ask: Script, listener: socket.socket) -> None:
    said, counts = ask("other", STAND_IN_FD=listener.fileno())
    assert "names no socket 'other' under Sockets" in said
    assert counts == "0 0"


def test_a_socket_that_was_taken_before_is_a_sentence(ask: Script) -> None:
    assert "taken by this process before" in ask(STAND_IN_ERROR=errno.EALREADY)[0]


def test_any_other_error_is_told_with_its_number(ask: Script) -> None:
    assert f"operation not permitted (error {errno.EPERM})" in ask(STAND_IN_ERROR=errno.EPERM)[0]


def test_a_name_without_sockets_is_a_sentence_and_its_empty_array_is_given_back(
    ask: Script, listener: socket.socket
) -> None:
    said, counts = ask(STAND_IN_FD=listener.fileno(), STAND_IN_COUNT=0)
    assert "no socket under the name 'mcp'" in said
    assert counts == "1 1"


def test_every_descriptor_of_the_name_is_read_and_a_second_request_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ctypes.CDLL(stand_in())
    monkeypatch.setenv("STAND_IN_FD", "40")
    monkeypatch.setenv("STAND_IN_COUNT", "3")
    assert launchd.activate(library, "mcp") == (0, [40, 41, 42])
    assert launchd.activate(library, "mcp") == (errno.EALREADY, [])
    assert (library.stand_in_allocated(), library.stand_in_freed()) == (1, 1)


def test_the_pointers_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ctypes.CDLL(stand_in())
    monkeypatch.setenv("STAND_IN_ERROR", str(errno.ESRCH))
    launchd.activate(library, "mcp")
    assert library.launch_activate_socket.argtypes == (
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.POINTER(ctypes.c_int)),
        ctypes.POINTER(ctypes.c_size_t),
    )
    assert library.launch_activate_socket.restype is ctypes.c_int
    assert (library.free.argtypes, library.free.restype) == ((ctypes.c_void_p,), None)


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ESRCH, errno.EALREADY])
def test_each_documented_error_has_a_sentence_of_its_own(code: int) -> None:
    assert os.strerror(code).lower() not in launchd.refusal("mcp", code)


@pytest.mark.skipif(sys.platform == "darwin", reason="launchd is there")
def test_where_there_is_no_launchd_it_is_not_asked() -> None:
    assert launchd.PRESENT is False
