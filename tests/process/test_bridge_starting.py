"""The bridge without a daemon: one is started, once, by the bridge or by systemd; or the reason why not is told."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from support.kernel import is_gone
from support.scripted_daemon import Stage, client_environment, end_daemon, eventually, opening, refused


def parent_of(pid: int) -> int:
    """Its parent's pid, by Linux."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def daemon_id(answer: dict[str, Any]) -> str:
    return str(answer["result"]["_meta"]["hearth/daemonId"])


def test_the_first_bridge_starts_the_daemon(scene: Stage) -> None:
    bridge = scene.bridge()
    bridge.send(opening())
    assert daemon_id(bridge.read())


def test_many_bridges_at_once_start_one_daemon(scene: Stage) -> None:
    bridges = [scene.bridge() for _ in range(16)]
    for bridge in bridges:
        bridge.send(opening())
    assert len({daemon_id(bridge.read()) for bridge in bridges}) == 1


def test_a_daemon_that_was_killed_is_started_again(scene: Stage) -> None:
    bridge = scene.bridge()
    bridge.send(opening())
    first = daemon_id(bridge.read())
    os.kill(json.loads((scene.home / "mcp" / "mcp" / "daemon.json").read_text())["pid"], signal.SIGKILL)
    bridge.send(opening(2))
    assert daemon_id(bridge.read()) != first


@pytest.mark.skipif(sys.platform != "linux", reason="the watcher is Linux's")
def test_a_daemon_whose_watcher_was_killed_goes_out_and_is_started_again(scene: Stage) -> None:
    bridge = scene.bridge()
    bridge.send(opening())
    first = daemon_id(bridge.read())
    registry = scene.home / "mcp" / "mcp" / "daemon.json"
    pid = json.loads(registry.read_text())["pid"]
    os.kill(parent_of(pid), signal.SIGKILL)
    eventually(lambda: is_gone(pid))
    said = (scene.home / ".local" / "state" / "hearth" / "logs" / "mcp.log").read_text()
    assert "shutting down: SIGTERM" in said and said.endswith("daemon stopped\n")
    assert not registry.exists()
    # The bridge was told that somebody has ended it: it comes back with what its client asks next.
    bridge.send(opening(2))
    assert daemon_id(bridge.read()) != first
    assert not is_gone(json.loads(registry.read_text())["pid"])


def test_with_only_the_variables_that_clients_pass_on_it_works(scene: Stage) -> None:
    environment = client_environment(scene.home)
    del environment["XDG_RUNTIME_DIR"]
    profile = f"t{uuid.uuid4().hex[:12]}"
    bridge = scene.bridge("--profile", profile, environment=environment)
    bridge.send(opening())
    assert daemon_id(bridge.read())
    output = subprocess.run(
        [sys.executable, "-c", f"from hearth.paths import Places; print(Places({profile!r}).folder)"],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    folder = Path(output.strip())
    end_daemon(folder / "daemon.json")
    for leftover in (*folder.iterdir(), folder):
        leftover.unlink() if leftover.is_file() else leftover.rmdir()


def test_the_reason_of_a_daemon_that_does_not_start_reaches_the_client(scene: Stage) -> None:
    sentence = scene.refusal('echo "config.toml, line 3: there is no key \'comand\'" >&"$fd"; exit 2')
    assert "there is no key 'comand'" in sentence
    assert scene.starts()[0].startswith("-I -m hearth.daemon --detach --ready-fd ")


def test_daemons_that_die_without_a_word_are_tried_again_and_then_told_with_their_log(scene: Stage) -> None:
    assert ".local/state/hearth/logs/mcp.log" in scene.refusal("exit 1", extra={"HEARTH_BRIDGE_PATIENCE": "0.5"})
    assert len(scene.starts()) > 1


def test_of_a_traceback_the_last_line_is_told(scene: Stage) -> None:
    sentence = scene.refusal("echo 'Traceback:' >&2; echo 'ImportError: no msgspec' >&2; exit 1")
    assert sentence.endswith("ImportError: no msgspec")


def test_a_daemon_is_told_which_it_is_by_its_arguments_alone(scene: Stage) -> None:
    extra = {"HEARTH_CONFIG": "/other.toml"}
    sentence = scene.refusal('echo "it got $* and <$HEARTH_CONFIG>" >&"$fd"', "--profile", "work", extra=extra)
    assert "--profile work --detach" in sentence and "<>" in sentence


def test_after_a_failure_the_next_line_tries_again(scene: Stage) -> None:
    bridge = scene.bridge_with('echo "the disk is full" >&"$fd"; exit 1')
    bridge.request(1)
    refused(bridge)
    daemon = scene.daemon()
    assert daemon.is_left_alone()
    bridge.request(2)
    bridge.expect_answer(daemon.welcome(), 2)


def test_a_daemon_that_says_another_one_runs_is_waited_for(scene: Stage) -> None:
    bridge = scene.bridge_with('echo "running pid 1" >&"$fd"; exit 3')
    bridge.request(1)
    eventually(scene.starts)
    bridge.expect_answer(scene.daemon().welcome(), 1)


def test_the_client_waits_while_somebody_else_starts_the_daemon(scene: Stage) -> None:
    folder = scene.home / "mcp" / "mcp"
    folder.mkdir(parents=True, mode=0o700)
    with (folder / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        bridge = scene.bridge_with("exit 1")
        bridge.request(1)
        assert bridge.is_silent()
        bridge.expect_answer(scene.daemon().welcome(), 1)
    assert scene.starts() == []


def test_an_interpreter_that_has_vanished_is_named(scene: Stage) -> None:
    bridge = scene.bridge_with('echo "not now" >&"$fd"')
    bridge.request(1)
    refused(bridge)
    (scene.home / "python").unlink()
    bridge.request(2)
    assert f"{scene.home}/python cannot be run" in refused(bridge, 2)


# --- systemd, played by a script


def systemctl(scene: Stage, socket_state: str, service_state: str, on_start: str = "exit 0") -> dict[str, str]:
    """A `systemctl` that tells these states, and a manager's traces; the variables for the bridge."""
    (scene.home / "systemd").mkdir()
    (scene.home / "systemd" / "private").touch()
    (scene.home / "bus").touch()
    folder = scene.home / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(
        f"""#!/bin/sh
echo "$* $XDG_RUNTIME_DIR $DBUS_SESSION_BUS_ADDRESS" >> {scene.home}/asked
case "$*" in
*show*) printf '{socket_state}\\n\\n{service_state}\\n';;
*start*) {on_start};;
esac
"""
    )
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


LOADED = "LoadState=loaded\\nActiveState={}\\nResult={}"
ABSENT = "LoadState=not-found\\nActiveState=inactive\\nResult=success"


def asked(scene: Stage) -> list[str]:
    return (scene.home / "asked").read_text().splitlines()


def test_an_installed_unit_that_is_off_is_started_and_no_daemon_of_our_own(scene: Stage) -> None:
    off = LOADED.format("inactive", "success")
    bridge = scene.bridge_with("exit 1", extra=systemctl(scene, off, off, on_start=f"touch {scene.home}/on"))
    bridge.request(1)
    eventually((scene.home / "on").exists)
    bridge.expect_answer(scene.daemon().welcome(), 1)
    assert f"--user start mcp.socket {scene.home} unix:path={scene.home}/bus" in asked(scene)
    assert scene.starts() == []


def test_a_failed_unit_is_told_with_what_to_type(scene: Stage) -> None:
    failed = LOADED.format("failed", "service-start-limit-hit")
    sentence = scene.refusal("exit 1", extra=systemctl(scene, failed, failed))
    assert "mcp.socket has failed (service-start-limit-hit)" in sentence
    assert "journalctl --user -u mcp.service" in sentence
    assert "systemctl --user reset-failed mcp.socket mcp.service; systemctl --user start mcp.socket" in sentence
    assert scene.starts() == []


def test_a_unit_that_does_not_start_is_told_with_what_systemctl_said(scene: Stage) -> None:
    off = LOADED.format("inactive", "success")
    sentence = scene.refusal("exit 1", extra=systemctl(scene, off, off, on_start="echo 'Unit is mad.' >&2; exit 1"))
    assert "Unit is mad." in sentence


def test_a_unit_that_is_on_without_a_socket_is_waited_for_and_then_told(scene: Stage) -> None:
    on = LOADED.format("active", "success")
    extra = {**systemctl(scene, on, on), "HEARTH_BRIDGE_PATIENCE": "0.3"}
    assert "systemctl --user restart mcp.socket" in scene.refusal("exit 1", extra=extra)
    assert scene.starts() == []


@pytest.mark.parametrize("words", [(), ("--config", "x.toml")])
def test_without_a_unit_the_bridge_starts_a_daemon_itself(scene: Stage, words: tuple[str, ...]) -> None:
    states = (LOADED.format("inactive", "success"),) * 2 if words else (ABSENT, ABSENT)
    sentence = scene.refusal('echo "so it was started" >&"$fd"', *words, extra=systemctl(scene, *states))
    assert "so it was started" in sentence


def test_a_named_profile_has_its_own_unit(scene: Stage) -> None:
    failed = LOADED.format("failed", "exit-code")
    bridge = scene.bridge("--profile", "my-work", extra=systemctl(scene, failed, failed))
    bridge.request(1)
    assert "mcp@my-work.socket has failed" in refused(bridge)


def test_a_line_that_is_not_json_is_shown_on_standard_error_cut_and_masked(scene: Stage) -> None:
    bridge = scene.bridge()
    bridge.write(b"loaded with token=hunter2hunter2 and more " + b"x" * 1000 + b"\n")
    answer = bridge.read()
    assert (answer["error"]["code"], "id" in answer) == (-32700, False)
    bridge.end_input()
    bridge.wait()
    said = bridge.stderr()
    assert "a line of the client is not JSON, and was refused: loaded with token=***" in said
    assert "hunter2" not in said
    assert len(said) < 400
