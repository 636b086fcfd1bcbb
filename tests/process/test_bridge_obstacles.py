"""What can be in the bridge's way, each with its one sentence; and its command line."""

import json
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hearth.paths import Places, short_dir
from support.scripted_daemon import BOUND_SECONDS, SCRIPT, SERVICE, Stage, client_environment, opening, refused


def test_patience_ends_with_a_sentence_and_errors_for_requests_only(scene: Stage) -> None:
    bridge = scene.bridge_with("sleep 5", extra={"HEARTH_BRIDGE_PATIENCE": "0.3"})
    bridge.notify("notifications/initialized")
    bridge.write(b"this is not json\n")
    bridge.request("one")
    answer = bridge.read()
    assert (answer["error"]["code"], "id" in answer) == (-32700, False)
    sentence = refused(bridge, "one")
    assert "hearth doctor" in sentence and "0.3 s" in sentence
    assert bridge.is_silent()
    assert sentence in bridge.stderr()


def test_a_folder_where_the_socket_should_be_is_named(scene: Stage) -> None:
    scene.socket.mkdir(parents=True)
    assert f"{scene.socket} should be a socket and is a folder" in scene.refusal("exit 1")
    assert scene.starts() == []


def test_a_stale_socket_file_leads_to_a_start(scene: Stage) -> None:
    scene.daemon().listener.close()
    assert stat.S_ISSOCK(scene.socket.stat().st_mode)
    assert "so it was started" in scene.refusal('echo "so it was started" >&"$fd"')


def test_a_full_queue_is_waited_for_and_starts_nothing(scene: Stage) -> None:
    daemon = scene.daemon(backlog=0)
    fillers = []
    while True:
        filler = socket.socket(socket.AF_UNIX)
        filler.setblocking(False)
        fillers.append(filler)
        try:
            filler.connect(str(scene.socket))
        except BlockingIOError:
            break
    bridge = scene.bridge_with("exit 1")
    bridge.request(1)
    assert bridge.is_silent()
    for filler in fillers:
        filler.close()
    for _ in fillers[:-1]:
        daemon.accept().close()
    bridge.expect_answer(daemon.welcome(), 1)
    assert scene.starts() == []


def test_a_socket_path_that_is_too_long_has_a_short_one(scene: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = scene.home / ("long" * 30)
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    path = Path(Places().socket)
    assert str(path).startswith(short_dir())
    path.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        daemon = scene.daemon(path)
        scene.bridge(extra={"XDG_RUNTIME_DIR": str(runtime)}).request(1)
        assert daemon.welcome().read_line()[1]["id"] == 1
    finally:
        path.unlink()


def test_a_runtime_folder_that_cannot_be_used_is_named(scene: Stage) -> None:
    runtime = scene.home / "file"
    runtime.write_text("not a folder")
    assert str(runtime) in scene.refusal("exit 1", extra={"XDG_RUNTIME_DIR": str(runtime)})


def test_a_refusal_is_an_answer_and_the_next_line_tries_again(scene: Stage) -> None:
    daemon, bridge = scene.daemon(), scene.bridge("--server", "tiem")
    bridge.request(1)
    wire = daemon.accept()
    wire.read()
    wire.send({"type": "error", "message": "there is no server 'tiem'; known: time"})
    wire.close()
    assert "there is no server 'tiem'; known: time" in refused(bridge)
    assert daemon.is_left_alone()
    bridge.request(2)
    bridge.expect_answer(daemon.welcome(), 2)


def test_a_refusal_before_the_language_is_known_is_understood(scene: Stage) -> None:
    daemon, bridge = scene.daemon(), scene.bridge()
    bridge.request(1)
    wire = daemon.accept()
    wire.socket.sendall(b'{"jsonrpc":"2.0","error":{"code":-32603,"message":"uid 7 may not use it"}}\n')
    wire.close()
    assert "uid 7 may not use it" in refused(bridge)


def test_a_daemon_that_takes_the_connection_and_says_nothing_is_told(scene: Stage) -> None:
    daemon, bridge = scene.daemon(), scene.bridge(extra={"HEARTH_BRIDGE_PATIENCE": "0.2"})
    wire = daemon.accept()
    bridge.request(1)
    sentence = refused(bridge)
    assert "said nothing" in sentence and "may or may not have run" in sentence
    wire.greet()
    wire.answer(wire.read_line()[0]["seq"], 1)
    bridge.request(2)
    wire.answer(wire.read_line()[0]["seq"], 2)
    # The late answer to what was answered already is dropped.
    assert bridge.read()["id"] == 2


def test_a_line_that_is_stuck_halfway_to_a_stopped_daemon_may_still_run(scene: Stage) -> None:
    daemon, bridge = scene.daemon(), scene.bridge(extra={"HEARTH_BRIDGE_PATIENCE": "0.5"})
    # More than the socket holds: the bridge hangs in its write, and finishes it when the daemon goes on.
    bridge.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": "x" * 1_000_000})
    assert "may or may not have run" in refused(bridge)
    assert daemon.welcome().read_line()[1]["id"] == 1


def test_a_folder_in_tmp_that_others_can_write_is_not_trusted(scene: Stage) -> None:
    # Everything is as in the usual place, but the folder of last resort has been opened by somebody.
    code = f"""
import os, sys
sys.path.append({str(SCRIPT.parents[2])!r})
import hearth.paths
hearth.paths.short_dir = lambda: {str(scene.home)!r}
from hearth.bridge import main
main([])
"""
    scene.daemon()
    scene.home.chmod(0o777)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=client_environment(scene.home),
    ) as child:  # fmt: skip
        output, _ = child.communicate(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', 30)
    assert "not a folder that only you can write" in json.loads(output)["error"]["message"]


# --- the command line


def run_bridge(*words: str, script: tuple[str, ...] = ("-I", "-S", str(SCRIPT))) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *script, *words]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False
    )


def test_help_teaches_and_click_is_not_needed_for_it(scene: Stage) -> None:
    direct = run_bridge("--help")
    typed = run_bridge("bridge", "--help", script=("-I", "-m", "hearth"))
    assert direct.returncode == typed.returncode == 0
    assert direct.stdout == typed.stdout
    assert "--server NAME" in direct.stdout and "hearth connect --print" in direct.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--sevrer", "x"], "'--sevrer' is not known here"),
        (["--server"], "--server needs a value"),
        (["--to", "ftp://x"], "--to must begin with http://, https:// or unix:/"),
        (["--to", "http://x", "--server", "y"], "--server and --to both name a server"),
        (["--to", "http://x", "--header", "secret"], "--header is written 'NAME: VALUE'"),
        (["--header", "A: b"], "--header goes with --to only"),
        (["--mode", "loud"], "--mode is full, search or auto, not 'loud'"),
        (["--profile", "a", "--config", "b"], "give one of them"),
        (["--profile", "../x"], "is not a profile name"),
    ],
)
def test_a_wrong_word_is_told_in_a_sentence(words: list[str], sentence: str) -> None:
    done = run_bridge(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


def test_the_environment_may_name_the_config(scene: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    config = scene.home / "other.toml"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(scene.home))
    daemon = scene.daemon(Path(Places(config=str(config)).socket))
    scene.bridge(extra={"HEARTH_CONFIG": str(config)})
    assert daemon.accept().read()[0]["type"] == "hello"
    scene.bridge("--config", str(config))
    assert daemon.accept().read()[0]["type"] == "hello"


@pytest.mark.parametrize("module", ["host/__init__.py", "host/locks.py", "bridge/activation.py"])
def test_a_bridge_that_lacks_a_part_of_itself_says_so(scene: Stage, module: str) -> None:
    copy = scene.home / "service"
    shutil.copytree(SERVICE / "hearth", copy / "hearth", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "hearth" / module).write_text("this is not Python\n")
    bridge = scene.bridge(script=copy / "hearth" / "bridge" / "main.py")
    bridge.request(1)
    assert "is Hearth's installation complete?" in refused(bridge)
    shutil.copy(SERVICE / "hearth" / module, copy / "hearth" / module)
    bridge.send(opening(2))
    assert bridge.read()["result"]["serverInfo"]["name"] == "hearth"
