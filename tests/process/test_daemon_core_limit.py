"""The daemon writes no core dump; its servers have the limit that it was started with."""

import resource
import sys
from pathlib import Path

import pytest

from support.daemon import COMMAND, Scratch, server

LIMIT_BYTES = 1 << 20
# Becomes the program in its words, with that limit.
_LIMITED = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, ({LIMIT_BYTES}, resource.getrlimit(resource.RLIMIT_CORE)[1]))
os.execv(sys.argv[1], sys.argv[1:])
"""
LIMITED = (sys.executable, "-I", "-S", "-c", _LIMITED, *COMMAND)

pytestmark = pytest.mark.skipif(
    0 <= resource.getrlimit(resource.RLIMIT_CORE)[1] < LIMIT_BYTES, reason="the hard limit allows no core dumps here"
)


def core_limit(pid: int) -> str:
    """The soft limit, as the kernel has it."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith("Max core file size"))
    return found.split()[4]


def call(scratch: Scratch) -> int:
    """Have the server started; its pid."""
    with scratch.lines() as client:
        client.initialize()
        assert "result" in client.call("echo__echo", text="x")
    (pid,) = scratch.upstream("echo")["pids"]
    return int(pid)


def test_the_daemon_and_its_watcher_dump_no_core_and_a_server_keeps_the_limit(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    daemon = scratch.start(command=LIMITED)
    assert core_limit(call(scratch)) == str(LIMIT_BYTES)
    assert (core_limit(daemon.pid), core_limit(daemon.process.pid)) == ("0", "0")


def test_the_limit_outlives_a_degraded_daemon(scratch: Scratch) -> None:
    scratch.write_config("[mcpServers.echo\n")
    daemon = scratch.start(command=LIMITED)
    assert core_limit(daemon.process.pid) == "0"
    scratch.configure({"echo": server("echo")})
    assert core_limit(call(scratch)) == str(LIMIT_BYTES)
    assert core_limit(daemon.pid) == "0"
