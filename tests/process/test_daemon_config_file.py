"""The config file under a daemon: broken at its start, half-written or unwritable later, and nobody is lost for it."""

import os
import stat
import time
from pathlib import Path

import pytest

from support.clients import FramesClient, text_of
from support.daemon import Scratch, server
from support.kernel import until

# How long the daemon leaves a file alone that was touched.
SETTLED_SECONDS = 1.0


def servers(scratch: Scratch) -> list[str]:
    return [item["name"] for item in scratch.status()["upstreams"]]


def say_hello(scratch: Scratch) -> None:
    with FramesClient(scratch.socket, {}) as client:
        assert client.ask("ping")["result"] == {}


def test_a_file_that_was_touched_a_moment_ago_is_taken_up_by_a_later_hello(scratch: Scratch) -> None:
    scratch.serve({"old": server("echo")})

    def looked_at_in_time() -> bool:
        scratch.configure({"new": server("echo")})
        say_hello(scratch)
        names = servers(scratch)
        # On a machine that was too busy, the file has settled by now and nothing is proved.
        in_time = time.time() - os.stat(scratch.config).st_mtime < SETTLED_SECONDS
        assert not in_time or names == ["old"]
        return in_time

    until(looked_at_in_time, "a hello while the file is fresh")

    def taken_up() -> bool:
        say_hello(scratch)
        return servers(scratch) == ["new"]

    until(taken_up, "the file is in force")


def test_a_registry_that_cannot_be_written_costs_a_warning_and_nothing_else(scratch: Scratch) -> None:
    daemon = scratch.serve({"old": server("echo")})
    scratch.registry.unlink()
    scratch.registry.mkdir()
    (scratch.registry / "occupied").touch()
    scratch.configure({"new": server("echo")})
    answer, _ = scratch.control().control("reload")
    assert answer["ok"] is True
    assert servers(scratch) == ["new"]
    assert scratch.status()["configError"] is None
    assert any(str(scratch.registry) in line and "warning" in line.lower() for line in scratch.logged().splitlines())
    # The same by a session's arrival, which has to survive it.
    scratch.configure({"newest": server("echo")})
    settled = time.time() - 5
    os.utime(scratch.config, (settled, settled))
    client = scratch.frames()
    assert text_of(client.call("newest__echo", text="not lost")) == "not lost"
    assert daemon.stop() == 0


BROKEN = "idle_timeout = 60\n[mcpServers.echo\n"
AT_FAULT = "config.toml:2: is not valid TOML"


def kept(scratch: Scratch) -> Path:
    return scratch.home / ".local" / "state" / "hearth" / "config" / "mcp"


@pytest.fixture
def home(scratch: Scratch) -> Scratch:
    """A home whose daemon has run once, and has ended."""
    scratch.configure({"echo": server("echo")})
    scratch.start().stop()
    return scratch


def test_a_daemon_that_starts_with_a_broken_config_uses_the_last_good_one(home: Scratch) -> None:
    home.write_config(BROKEN)
    home.start()
    client = home.lines().initialized()
    assert text_of(client.call("echo__echo", text="served")) == "served"


def test_the_status_and_the_log_say_that_the_last_good_config_is_in_force(home: Scratch) -> None:
    home.write_config(BROKEN)
    home.start()
    status = home.status()
    assert status["degraded"] is None
    assert AT_FAULT in status["configError"] and "in force is the last good config, of 2" in status["configError"]
    [line] = [line for line in home.logged().splitlines() if "the config file is not used" in line]
    assert AT_FAULT in line and "in force is the last good config" in line


def test_a_mended_config_is_taken_up_and_no_longer_complained_of(home: Scratch) -> None:
    home.write_config(BROKEN)
    home.start()
    home.configure({"other": server("echo")})
    home.control().control("reload")
    status = home.status()
    assert status["configError"] is None
    assert [each["name"] for each in status["upstreams"]] == ["other"]


def test_the_kept_config_is_the_file_byte_for_byte_and_for_its_owner_only(home: Scratch) -> None:
    file = kept(home)
    assert file.read_bytes() == home.config.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_the_kept_config_follows_a_good_reload_and_no_broken_one(home: Scratch) -> None:
    home.start()
    home.configure({"other": server("echo")})
    good = home.config.read_bytes()
    home.reload()
    assert kept(home).read_bytes() == good
    home.write_config(BROKEN)
    assert home.control().control("reload")[0]["ok"] is False
    assert kept(home).read_bytes() == good


@pytest.mark.parametrize("content", [BROKEN.encode(), b"\xff\xfe\xff", b""])
def test_a_kept_config_that_cannot_be_used_either_leaves_the_daemon_degraded(home: Scratch, content: bytes) -> None:
    kept(home).write_bytes(content)
    home.write_config(BROKEN)
    home.start()
    assert AT_FAULT in home.status()["degraded"]


def test_servers_that_were_removed_with_the_config_file_do_not_come_back(home: Scratch) -> None:
    home.config.unlink()
    home.start().stop()
    assert not kept(home).exists()
    home.write_config(BROKEN)
    home.start()
    assert AT_FAULT in home.status()["degraded"]


def test_a_config_that_cannot_be_kept_costs_a_warning_and_nothing_else(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    kept(scratch).mkdir(parents=True)
    (kept(scratch) / "occupied").touch()
    scratch.start()
    assert scratch.lines().ask("ping")["result"] == {}
    assert "the config cannot be kept" in scratch.logged()


def test_a_file_that_is_mended_later_is_noticed_without_a_command(home: Scratch) -> None:
    home.write_config(BROKEN)
    home.start()
    home.configure({"other": server("echo")})
    settled = os.stat(home.config).st_mtime - 5
    os.utime(home.config, (settled, settled))
    until(lambda: home.frames() and home.status()["configError"] is None, "the mended file is in force")
