"""The config file under a daemon that nobody tells to reload: noticed by the next request, or by the tick."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.clients import FramesClient
from support.daemon import Scratch, pids_of, server, toml
from support.kernel import is_gone, until


def servers(scratch: Scratch) -> list[str]:
    return [item["name"] for item in scratch.status()["upstreams"]]


def truncate_and_write(config: Path, text: str) -> None:
    with config.open("w") as file:
        file.flush()
        file.write(text)


def delete_and_create(config: Path, text: str) -> None:
    config.unlink()
    config.write_text(text)


def link_to_another(config: Path, text: str) -> None:
    target = config.with_name("elsewhere.toml")
    target.write_text(text)
    link = config.with_name("link")
    link.symlink_to(target.name)
    link.replace(config)


def swap_the_folder(config: Path, text: str) -> None:
    other = config.parent.with_name("other")
    other.mkdir()
    (other / config.name).write_text(text)
    config.parent.rename(config.parent.with_name("former"))
    config.parent.symlink_to(other)


def noticed(scratch: Scratch, name: str) -> None:
    until(lambda: servers(scratch) == [name], "the change is noticed")


# Beyond the bound of any wait here: what is noticed is noticed by the next request, which asks for the status.
SELDOM = 1000


@pytest.mark.parametrize("write", [truncate_and_write, delete_and_create, link_to_another, swap_the_folder])
def test_a_change_is_noticed_by_itself_however_it_is_written(
    scratch: Scratch, write: Callable[[Path, str], None]
) -> None:
    settings = {"idle_timeout": 0, "heartbeat_interval": SELDOM}
    scratch.serve({"first": server("echo")}, **settings)
    write(scratch.config, toml(settings, {"second": server("echo")}))
    noticed(scratch, "second")
    # In the new place, if it is one.
    scratch.config.write_text(toml(settings, {"third": server("echo")}))
    noticed(scratch, "third")


def test_a_folder_that_is_made_later_is_noticed(scratch: Scratch) -> None:
    scratch.start(HEARTH_IDLE_TIMEOUT="0", HEARTH_HEARTBEAT_INTERVAL=str(SELDOM))
    scratch.configure({"first": server("echo")})
    noticed(scratch, "first")


def test_a_file_that_is_away_for_a_while_costs_no_server_its_process(scratch: Scratch) -> None:
    scratch.serve({"echo": server("echo")}).frames().call("echo__echo", text="x")
    (pid,) = pids_of(scratch, "echo")
    text = scratch.config.read_text()
    scratch.config.unlink()
    # A bridge that comes now is no reason to believe it.
    with FramesClient(scratch.socket, {}) as other:
        assert other.ask("ping")["result"] == {}
    assert servers(scratch) == ["echo"]
    scratch.config.write_text("idle_timeout = 77\n" + text)
    before = scratch.status()["configHash"]
    until(lambda: scratch.status()["configHash"] != before, "the file is in force")
    assert pids_of(scratch, "echo") == [pid]
    assert not is_gone(pid)


def test_a_file_that_stays_away_is_a_config_of_defaults(scratch: Scratch) -> None:
    scratch.serve({"echo": server("echo")})
    scratch.config.unlink()
    until(lambda: servers(scratch) == [], "the default config is in force")
    assert scratch.status()["configError"] is None


def test_a_file_that_was_named_and_vanishes_leaves_the_old_config_running_until_it_is_back(scratch: Scratch) -> None:
    named = scratch.home / "named.toml"
    named.write_text(toml({"idle_timeout": 0}, {"echo": server("echo")}))
    daemon = scratch.start("--config", str(named))
    socket = next(path for path in (scratch.runtime / "mcp").glob("*.sock"))
    scratch.socket = str(socket)
    scratch.registry = socket.with_suffix("") / "daemon.json"
    named.unlink()
    until(lambda: scratch.status()["configError"], "its absence is noticed")
    assert "does not exist" in scratch.status()["configError"]
    assert servers(scratch) == ["echo"]
    named.write_text(toml({"idle_timeout": 0}, {"other": server("echo")}))
    noticed(scratch, "other")
    assert scratch.status()["configError"] is None
    assert daemon.stop() == 0


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.skipif(sys.platform != "linux", reason="the state of the stopped daemon is read in /proc")
@pytest.mark.parametrize("end", ["", "[mcpServers"], ids=["valid", "broken"])
def test_a_file_that_is_written_between_the_look_and_the_read_is_read_when_it_has_settled(
    scratch: Scratch, end: str
) -> None:
    """The first part of a config is a valid one without servers, or broken; neither is taken up."""
    scratch.configure({"echo": server("echo")}, idle_timeout=0)
    daemon = scratch.start(HEARTH_FAULTS="before-reload=stop")
    user, other = scratch.frames(), scratch.own(FramesClient(scratch.socket))
    user.initialize()
    user.tools()
    (pid,) = pids_of(scratch, "echo")
    whole = toml({"idle_timeout": 0}, {"echo": server("echo"), "other": server("echo")})
    beginning = whole[: whole.index(end) + len(end)]
    scratch.write_config(whole)
    past = time.time() - 60
    os.utime(scratch.config, (past, past))
    other.begin_control("status")
    until(lambda: is_stopped(daemon.pid), "the daemon is between the look and the read")
    with scratch.config.open("w") as file:
        file.write(beginning)
        file.flush()
        os.kill(daemon.pid, signal.SIGCONT)
        found = json.loads(other.receive_type("status")[1])
        assert [each["name"] for each in found["upstreams"]] == ["echo"]
        assert found["configError"] is None
        file.write(whole.removeprefix(beginning))
    until(lambda: servers(scratch) == ["echo", "other"], "the whole file is in force")
    assert pids_of(scratch, "echo") == [pid] and not is_gone(pid)


def test_a_mistake_is_told_and_mended_without_anybody_asking(scratch: Scratch) -> None:
    scratch.serve({"echo": server("echo")})
    scratch.write_config("idle_timeout = [\n")
    until(lambda: scratch.status()["configError"], "the mistake is noticed")
    assert servers(scratch) == ["echo"]
    scratch.configure({"other": server("echo")})
    noticed(scratch, "other")
    assert scratch.status()["configError"] is None


def test_a_file_that_is_only_touched_announces_nothing_and_costs_no_process(scratch: Scratch) -> None:
    client = scratch.serve({"echo": server("echo")}, log_level="debug").lines().initialized()
    client.tools()
    (pid,) = pids_of(scratch, "echo")
    os.utime(scratch.config)
    until(lambda: f"{scratch.config} is in force" in scratch.logged(), "it is read again")
    assert client.ask("ping")["result"] == {}
    assert client.aside == []
    assert pids_of(scratch, "echo") == [pid]
