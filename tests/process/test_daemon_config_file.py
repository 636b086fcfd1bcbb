"""The config file and the registry under a running daemon: half-written, unwritable, and nobody is lost for it."""

import os
import time

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
