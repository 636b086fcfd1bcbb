"""A start with a broken config file: the last good config is in force, and the daemon says so."""

import os
import stat
from pathlib import Path

import pytest

from support.clients import text_of
from support.daemon import Scratch, server
from support.kernel import until

BROKEN = "idle_timeout = 60\n[mcpServers.echo\n"
AT_FAULT = "config.toml:2: is not valid TOML"


def kept(scratch: Scratch) -> Path:
    return scratch.home / ".local" / "state" / "hearth" / "config" / "mcp"


@pytest.fixture
def after_a_good_start(scratch: Scratch) -> Scratch:
    """A home whose daemon has run once, and has ended."""
    scratch.configure({"echo": server("echo")})
    scratch.start().stop()
    return scratch


def test_a_daemon_that_starts_with_a_broken_config_uses_the_last_good_one(after_a_good_start: Scratch) -> None:
    scratch = after_a_good_start
    scratch.write_config(BROKEN)
    scratch.start()
    client = scratch.lines()
    client.initialize()
    assert text_of(client.call("echo__echo", text="served")) == "served"


def test_the_status_and_the_log_say_that_the_last_good_config_is_in_force(after_a_good_start: Scratch) -> None:
    scratch = after_a_good_start
    scratch.write_config(BROKEN)
    scratch.start()
    status = scratch.status()
    assert status["degraded"] is None
    assert AT_FAULT in status["configError"] and "in force is the last good config, of 2" in status["configError"]
    [line] = [line for line in scratch.logged().splitlines() if "the config file is not used" in line]
    assert AT_FAULT in line and "in force is the last good config" in line


def test_a_mended_config_is_taken_up_and_no_longer_complained_of(after_a_good_start: Scratch) -> None:
    scratch = after_a_good_start
    scratch.write_config(BROKEN)
    scratch.start()
    scratch.configure({"other": server("echo")})
    scratch.control().control("reload")
    status = scratch.status()
    assert status["configError"] is None
    assert [each["name"] for each in status["upstreams"]] == ["other"]


def test_the_kept_config_is_the_file_byte_for_byte_and_for_its_owner_only(after_a_good_start: Scratch) -> None:
    file = kept(after_a_good_start)
    assert file.read_bytes() == after_a_good_start.config.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_the_kept_config_follows_a_good_reload_and_no_broken_one(after_a_good_start: Scratch) -> None:
    scratch = after_a_good_start
    scratch.start()
    scratch.configure({"other": server("echo")})
    good = scratch.config.read_bytes()
    assert scratch.control().control("reload")[0]["ok"] is True
    assert kept(scratch).read_bytes() == good
    scratch.write_config(BROKEN)
    assert scratch.control().control("reload")[0]["ok"] is False
    assert kept(scratch).read_bytes() == good


@pytest.mark.parametrize("content", [BROKEN.encode(), b"\xff\xfe\xff", b""])
def test_a_kept_config_that_cannot_be_used_either_leaves_the_daemon_degraded(
    after_a_good_start: Scratch, content: bytes
) -> None:
    scratch = after_a_good_start
    kept(scratch).write_bytes(content)
    scratch.write_config(BROKEN)
    scratch.start()
    assert AT_FAULT in scratch.status()["degraded"]


def test_servers_that_were_removed_with_the_config_file_do_not_come_back(after_a_good_start: Scratch) -> None:
    scratch = after_a_good_start
    scratch.config.unlink()
    scratch.start().stop()
    assert not kept(scratch).exists()
    scratch.write_config(BROKEN)
    scratch.start()
    assert AT_FAULT in scratch.status()["degraded"]


def test_a_config_that_cannot_be_kept_costs_a_warning_and_nothing_else(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    kept(scratch).mkdir(parents=True)
    (kept(scratch) / "occupied").touch()
    scratch.start()
    assert scratch.lines().ask("ping")["result"] == {}
    assert "the config cannot be kept" in scratch.logged()


def test_a_file_that_is_mended_later_is_noticed_without_a_command(after_a_good_start: Scratch) -> None:
    scratch = after_a_good_start
    scratch.write_config(BROKEN)
    scratch.start()
    scratch.configure({"other": server("echo")})
    settled = os.stat(scratch.config).st_mtime - 5
    os.utime(scratch.config, (settled, settled))
    until(lambda: scratch.frames() and scratch.status()["configError"] is None, "the mended file is in force")
