"""A socket of another user, in a folder that others can write to: nothing is sent there. With a real second user."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth import registry, socket_trust
from hearth.host import processes
from hearth.paths import Places
from process.remote_bridge import bridge_to
from support.other_users import FakeDaemon, as_stranger, fake_daemon, python, stranger
from support.scripted_daemon import BridgeProcess, Stage, stage

pytestmark = pytest.mark.root


@pytest.fixture
def scene() -> Iterator[Stage]:
    stranger()
    with stage() as opened:
        opened.home.chmod(0o777)
        opened.socket.parent.mkdir()
        opened.socket.parent.chmod(0o777)
        yield opened


@pytest.fixture
def fake(scene: Stage) -> Iterator[FakeDaemon]:
    with fake_daemon(scene.socket, scene.home / "heard") as listening:
        yield listening


def refusal(bridge: BridgeProcess) -> str:
    bridge.request(1)
    error = bridge.read()["error"]
    assert error["code"] == -32603
    return str(error["message"])


def test_the_bridge_sends_nothing_to_a_socket_of_another_user(scene: Stage, fake: FakeDaemon) -> None:
    assert f"{scene.socket}: belongs to user {stranger().pw_uid}, not to you" in refusal(scene.bridge())
    assert fake.heard() == b""


def test_the_bridge_does_not_connect_in_a_folder_of_another_user(scene: Stage, fake: FakeDaemon) -> None:
    os.chown(scene.socket.parent, stranger().pw_uid, -1)
    assert f"{scene.socket.parent}: belongs to user {stranger().pw_uid}" in refusal(scene.bridge())
    assert fake.heard() == b""


def test_the_bridge_does_not_follow_a_link_of_another_user(scene: Stage) -> None:
    scene.socket.parent.rmdir()
    real = scene.home / "real"
    real.mkdir()
    scene.socket.parent.symlink_to(real)
    os.lchown(scene.socket.parent, stranger().pw_uid, -1)
    assert f"{scene.socket.parent}: belongs to user {stranger().pw_uid}" in refusal(scene.bridge())


def test_the_bridge_believes_the_kernel_and_not_the_file_about_who_listens(scene: Stage, fake: FakeDaemon) -> None:
    os.chown(scene.socket, os.getuid(), -1)
    assert f"{scene.socket}: is served by user {stranger().pw_uid}, not by you" in refusal(scene.bridge())
    # It was connected to, which is how the kernel could be asked; no byte followed.
    assert set(fake.heard()) == {ord("+")}


def test_a_bridge_that_was_refused_reaches_the_own_daemon_when_that_is_there(scene: Stage, fake: FakeDaemon) -> None:
    bridge = scene.bridge()
    refusal(bridge)
    scene.socket.unlink()
    daemon = scene.daemon()
    bridge.request(2)
    wire = daemon.welcome()
    seq, line = wire.read_line()[0]["seq"], 2
    wire.answer(seq, line)
    assert bridge.read()["id"] == 2


def test_the_command_line_sends_nothing_to_a_socket_of_another_user(scene: Stage, fake: FakeDaemon) -> None:
    os.chown(scene.socket, os.getuid(), -1)
    environment = {"HOME": str(scene.home), "PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(scene.home)}
    folder = scene.socket.with_suffix("")
    folder.mkdir(mode=0o700)
    write_entry(folder / "daemon.json", str(scene.socket))
    found = subprocess.run(
        [sys.executable, "-m", "hearth", "status"], env=environment, capture_output=True, text=True, check=False
    )
    # The scene ends the daemon of every entry that it finds.
    (folder / "daemon.json").unlink()
    assert found.returncode != 0
    assert f"{scene.socket} is served by user {stranger().pw_uid}, not by you" in found.stderr
    assert set(fake.heard()) == {ord("+")}


def test_a_bridge_to_an_http_server_sends_nothing_where_others_may_have_put_the_socket(
    scene: Stage, fake: FakeDaemon
) -> None:
    with bridge_to(f"unix:{scene.socket}", "--header", "Authorization: Bearer mine") as bridge:
        message = bridge.ask("tools/list", _modern=True)["error"]["message"]
    assert f"nothing was sent: user {stranger().pw_uid} listens on {scene.socket}" in message
    assert set(fake.heard()) == {ord("+")}


def test_a_bridge_to_an_http_server_believes_a_user_in_folders_that_no_third_user_can_write(scene: Stage) -> None:
    refusal = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    with tempfile.TemporaryDirectory(dir="/run") as place:
        os.chown(place, stranger().pw_uid, -1)
        with (
            fake_daemon(Path(place, "s.sock"), scene.home / "heard", refusal) as fake,
            bridge_to(f"unix:{place}/s.sock") as bridge,
        ):
            assert "error" in bridge.ask("tools/list", _modern=True)
            assert b"POST /mcp" in fake.heard()


def write_entry(path: Path, endpoint: str) -> None:
    """Say that this process is the daemon."""
    places = Places()
    places.registry, places.folder = str(path), str(path.parent)
    entry = registry.RegistryEntry(
        daemon_id="d", endpoint=endpoint, pid=os.getpid(), start_time=processes.start_time(os.getpid()) or 0,
        started_at=time.time(), version="0", protocol=1,
    )  # fmt: skip
    registry.write(places, entry)


# Prints what `socket_trust` says of the socket in its first word.
_CHECK = """
import socket, sys
import socket_trust
sock = socket.socket(socket.AF_UNIX)
try:
    socket_trust.check_place(sys.argv[1], "")
    sock.connect(sys.argv[1])
    socket_trust.check_peer(sock, sys.argv[1])
    print("believed")
except PermissionError as exc:
    print(exc.strerror)
"""


@pytest.mark.parametrize("owner", ["root", "stranger"])
def test_a_listener_of_root_is_believed_in_a_folder_of_root_only(scene: Stage, tmp_path: Path, owner: str) -> None:
    daemon = scene.daemon()
    os.chown(scene.socket, stranger().pw_uid, -1)
    if owner == "stranger":
        os.chown(scene.socket.parent, stranger().pw_uid, -1)
    shutil.copy(socket_trust.__file__, scene.home / "socket_trust.py")
    command = as_stranger("env", f"PYTHONPATH={scene.home}", python(), "-c", _CHECK, str(scene.socket))
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout
    expected = "believed" if owner == "root" else "is served by user 0, not by you"
    assert expected in said
    daemon.close()
