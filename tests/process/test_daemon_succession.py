"""A daemon whose folder was taken away beneath it, and the one that lives in the new folder."""

import json
import shutil

from support.daemon import Scratch
from support.kernel import until


def test_a_daemon_that_lost_its_folder_leaves_the_entry_of_the_next_one_alone(scratch: Scratch) -> None:
    first = scratch.serve(heartbeat_interval=0.1)
    shutil.rmtree(scratch.runtime / "mcp")
    second = scratch.start()
    entry = json.loads(scratch.registry.read_text())
    # The first one notices that its socket is no longer there, and goes.
    assert first.process.wait() == 0
    assert json.loads(scratch.registry.read_text()) == entry
    assert scratch.status()["pid"] == entry["pid"]
    second.end()
    until(lambda: not scratch.registry.exists(), "the entry goes with its own daemon")


def test_a_server_that_exits_at_once_is_described_by_its_exit(scratch: Scratch) -> None:
    client = scratch.serve({"gone": {"command": "/bin/sh", "args": ["-c", "printf 'oh no' >&2; exit 7"]}}).lines()
    message = client.call("gone__x")["error"]["message"]
    assert "exit code 7" in message
    assert "oh no" in message
    assert "asyncio" not in scratch.logged()
    assert "lives on" not in scratch.logged()
