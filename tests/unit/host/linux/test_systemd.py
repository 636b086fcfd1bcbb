"""The protocols of sd_listen_fds(3) and sd_notify(3), without systemd."""

import contextlib
import importlib.util
import os
import socket
import sys
import tempfile
from collections.abc import Iterator

import pytest

from hearth.host.linux import systemd
from hearth.host.linux.systemd import Journal, Notifier
from support.requirements import needs

# Where the package python3-systemd has it.
SYSTEMD_PYTHON = "/usr/lib/python3/dist-packages/systemd"


@pytest.fixture(params=["the standard library", "systemd-python (daemon)"], autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Speak the protocols in Hearth's own lines, and in systemd-python; return which."""
    monkeypatch.setattr(systemd, "_IN_USE", set())
    # Not found, whatever is installed.
    monkeypatch.setitem(sys.modules, "systemd", None)
    for name in ("daemon", "_daemon"):
        monkeypatch.delitem(sys.modules, f"systemd.{name}", raising=False)
    if request.param.startswith("systemd-python"):
        needs(_fits(), "the package python3-systemd, for this Python")
        spec = importlib.util.spec_from_file_location("systemd", f"{SYSTEMD_PYTHON}/__init__.py")
        assert spec
        monkeypatch.setitem(sys.modules, "systemd", importlib.util.module_from_spec(spec))
    return str(request.param)


def _fits() -> bool:
    tag = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"
    return os.path.isdir(SYSTEMD_PYTHON) and any(tag in name for name in os.listdir(SYSTEMD_PYTHON))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"LISTEN_PID": "1", "LISTEN_FDS": "1"},
        {"LISTEN_PID": "{pid}", "LISTEN_FDS": "many"},
        {"LISTEN_PID": "{pid}", "LISTEN_FDS": "0"},
        {"LISTEN_FDS": "1"},
    ],
)
def test_what_was_not_meant_for_this_process_is_not_taken_and_not_handed_on(
    values: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value.format(pid=os.getpid()))
    assert systemd.take_listeners() == []
    assert not any(name.startswith("LISTEN_") for name in os.environ)


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The receiving end of sd_notify(3)."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"{folder}/notify")
        sock.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{folder}/notify")
        yield sock


@contextlib.contextmanager
def notifying() -> Iterator[Notifier]:
    """A notifier whose socket, which a daemon keeps for its life, is closed at the end."""
    notifier = Notifier()
    yield notifier
    if notifier._socket:
        notifier._socket.close()


def test_each_state_is_one_datagram(manager: socket.socket, implementation: str) -> None:
    with notifying() as notifier:
        notifier.ready("all well")
        notifier.status("busy")
        notifier.reloading()
        notifier.watchdog()
        notifier.stopping("bye", 1.5)
    heard = [manager.recv(4096).decode() for _ in range(5)]
    assert heard[0] == "READY=1\nSTATUS=all well"
    assert heard[1] == "STATUS=busy"
    assert heard[2].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert systemd.implementation() == implementation
    assert heard[3:] == ["WATCHDOG=1", "STOPPING=1\nSTATUS=bye\nEXTEND_TIMEOUT_USEC=1500000"]


def test_an_abstract_address_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0hearth-test-{os.getpid()}")
        sock.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@hearth-test-{os.getpid()}")
        with notifying() as notifier:
            notifier.status("hi")
        assert sock.recv(100) == b"STATUS=hi"


@pytest.mark.parametrize("address", ["", "/no/such/socket"])
def test_without_a_manager_nothing_is_said_and_nothing_fails(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with notifying() as notifier:
        notifier.ready("x")


@pytest.mark.parametrize(
    ("interval", "pid", "seconds"),
    [
        ("2000000", None, 1.0),
        ("2000000", "{pid}", 1.0),
        ("2000000", "1", None),
        ("soon", None, None),
        (None, None, None),
    ],
)
def test_the_watchdog_is_patted_twice_per_interval_when_it_is_this_process_s(
    interval: str | None, pid: str | None, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("WATCHDOG_USEC", interval), ("WATCHDOG_PID", pid)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value.format(pid=os.getpid()))
    assert Notifier().watchdog_seconds == seconds


class _Recorder:
    """Stand-in for systemd-python's module of the journal, which writes to the system's journal only."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, ...]] = []

    def sendv(self, *fields: bytes) -> None:
        self.sent.append(fields)


def test_libsystemd_is_not_called_while_it_would_wait_or_drop_records() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        journal = Journal(f"{folder}/socket")
        library = journal._library = _Recorder()
        assert not journal.send({"MESSAGE": "nobody listens"})
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as queue,
            socket.socket(queue.family, queue.type) as other,
        ):
            queue.bind(f"{folder}/socket")
            assert journal.send({"MESSAGE": "é\nb"})
            assert library.sent == [("MESSAGE=é\nb".encode(),)]
            other.setblocking(False)
            other.connect(f"{folder}/socket")
            with contextlib.suppress(BlockingIOError):
                while True:
                    other.send(b"x")
            assert journal.send({"MESSAGE": "lost"})
            assert len(library.sent) == 1
            queue.recv(1)
            assert journal.send({"MESSAGE": "again"})
            assert library.sent[1] == (b"MESSAGE=again", b"HEARTH_LOST=1")
        journal.close()
