"""`hearth bridge --token-file`: the role token is read at each connection, and a bad file is told on the wire."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth.bridge import role_token
from support.scripted_daemon import Stage, refused

TOKEN = "hearth-role-" + "Ab3_" * 10 + "xyz"


@pytest.fixture
def file(scene: Stage) -> Path:
    path = scene.home / "dev.token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


def test_the_token_is_in_hello_and_nowhere_else(scene: Stage, file: Path) -> None:
    daemon, bridge = scene.daemon(), scene.bridge("--token-file", str(file))
    hello, _ = daemon.accept().read()
    assert hello["roleToken"] == TOKEN
    assert "token" not in hello
    process = Path(f"/proc/{bridge.child.pid}")
    assert TOKEN.encode() not in process.joinpath("cmdline").read_bytes() + process.joinpath("environ").read_bytes()
    assert TOKEN not in bridge.stderr()


def test_without_the_option_hello_has_no_token(scene: Stage) -> None:
    daemon = scene.daemon()
    scene.bridge()
    hello, _ = daemon.accept().read()
    assert "roleToken" not in hello


def test_a_renewed_token_is_shown_at_the_next_connection(scene: Stage, file: Path) -> None:
    daemon, bridge = scene.daemon(), scene.bridge("--token-file", str(file))
    wire = daemon.accept()
    wire.greet()
    file.write_text("hearth-role-renewed")
    bridge.request_on(wire, 1)
    wire.close()
    hello, _ = daemon.accept().read()
    assert hello["roleToken"] == "hearth-role-renewed"


def remove(path: Path) -> None:
    path.unlink()


def open_to_all(path: Path) -> None:
    path.chmod(0o644)


def open_to_the_group(path: Path) -> None:
    path.chmod(0o620)


def make_huge(path: Path) -> None:
    path.write_bytes(b"x" * (role_token.FILE_LIMIT_BYTES + 1))


def make_empty(path: Path) -> None:
    path.write_text(" \n")


def make_binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def make_long(path: Path) -> None:
    path.write_text("x" * 300)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def make_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (remove, "does not exist; `hearth role token ROLE` writes one"),
        (open_to_all, "is open to other users (mode 0644); type `chmod 600"),
        (open_to_the_group, "is open to other users (mode 0620)"),
        (make_huge, "has over 4096 bytes"),
        (make_empty, "has no token in it"),
        (make_binary, "has no token in it"),
        (make_long, "has no token in it"),
        (make_folder, "is not a regular file"),
        (make_pipe, "is not a regular file"),
        (make_loop, "cannot be read"),
    ],
)
def test_a_bad_file_is_an_error_on_the_wire_until_it_is_mended(
    scene: Stage, file: Path, spoil: Callable[[Path], None], words: str
) -> None:
    daemon = scene.daemon()
    spoil(file)
    bridge = scene.bridge("--token-file", str(file))
    bridge.request(1)
    sentence = refused(bridge)
    assert words in sentence
    assert str(file) in sentence
    assert "xxx" not in sentence
    bridge.request(2)
    assert words in refused(bridge, 2)
    # The connection that was made first brought no hello.
    daemon.accept().close()
    if file.is_dir():
        file.rmdir()
    file.unlink(missing_ok=True)
    file.write_text(TOKEN)
    file.chmod(0o600)
    bridge.request(3)
    wire = daemon.accept()
    hello, _ = wire.read()
    assert hello["roleToken"] == TOKEN
    assert bridge.child.poll() is None


def test_a_link_to_a_private_file_will_do(scene: Stage, file: Path) -> None:
    link = scene.home / "link"
    link.symlink_to(file)
    daemon = scene.daemon()
    scene.bridge("--token-file", str(link))
    hello, _ = daemon.accept().read()
    assert hello["roleToken"] == TOKEN


def test_a_refusal_of_the_daemon_reaches_the_client(scene: Stage, file: Path) -> None:
    daemon, bridge = scene.daemon(), scene.bridge("--token-file", str(file))
    bridge.request(1)
    wire = daemon.accept()
    # The hello and the request: a socket that is closed with something unread may lose what was sent over it.
    wire.read()
    wire.read()
    wire.send({"type": "error", "message": "the role token is unknown: `hearth role token ROLE` issues a new one"})
    wire.close()
    assert "the role token is unknown" in refused(bridge)


def test_the_file_is_not_changed(scene: Stage, file: Path) -> None:
    before = file.stat()
    scene.daemon()
    bridge = scene.bridge("--token-file", str(file))
    bridge.end_input()
    bridge.wait()
    after = file.stat()
    assert (after.st_mtime_ns, stat.S_IMODE(after.st_mode)) == (before.st_mtime_ns, stat.S_IMODE(before.st_mode))
