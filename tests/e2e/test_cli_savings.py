"""`hearth savings` as typed, on processes that run, held against /proc; and the same figure in `hearth status`."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cli_home import PATIENCE_SECONDS, Bridge, Home, Lines, scratch_home

FIXTURE = Path(__file__).parent / "fixtures" / "own_servers.py"
CLIENTS = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "planner": "planner",  # no client that is known
}
ECHO = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)\n"


class Agents:
    """Five clients with three servers of their own each: by a runner, a real one, and one that only a file names."""

    def __init__(self, home: Home) -> None:
        self.home = home
        folder = Path(home.home)
        package = folder / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.py"
        notes = folder / "tools" / "notes.py"
        for script in (package, notes):
            script.parent.mkdir(parents=True)
            script.write_text(ECHO)
        self.bin = folder / "bin"
        self.bin.mkdir()
        # As npx does it: a process of its own, a shell, and the server.
        self._program("npx", f'#!/bin/sh\n/bin/sh -c "{sys.executable} -I {package}; exit \\$?"\nexit $?\n')
        for name in CLIENTS:
            self._program(name, f"#!{sys.executable} -I\n{FIXTURE.read_text()}")
        time = os.path.join(os.path.dirname(sys.executable), "mcp-server-time")
        self.commands = [
            [str(self.bin / "npx"), "-y", "@modelcontextprotocol/server-everything"],
            [time, "--local-timezone", "UTC"],
            [sys.executable, "-I", str(notes)],
        ]
        entry = {"type": "stdio", "command": sys.executable, "args": ["-I", str(notes)]}
        (folder / ".claude.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
        self.processes = [self._start(name) for name in CLIENTS]
        for process in self.processes:
            assert process.stdout
            assert Lines(process.stdout.fileno()).next() == b"ready"

    def _program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def _start(self, name: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [str(self.bin / name), json.dumps(self.commands)],
            env=self.home.environment,
            cwd=self.home.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(PATIENCE_SECONDS)
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()


@pytest.fixture(scope="module")
def agents() -> Iterator[Agents]:
    """Agents that the tests only look at."""
    for home in scratch_home():
        found = Agents(home)
        try:
            yield found
        finally:
            found.close()


def children() -> dict[int, list[int]]:
    """Every process of the machine by its parent, as /proc has it."""
    found: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        found.setdefault(parent, []).append(int(name))
    return found


def family(pid: int, known: dict[int, list[int]]) -> set[int]:
    return {pid}.union(*(family(child, known) for child in known.get(pid, ())))


def memory(pids: set[int], *fields: str) -> int:
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) * 1024 for line in lines if line.split(":")[0] in fields)


def mine(document: dict[str, Any], home: Home) -> list[dict[str, Any]]:
    """The servers of this test: others may run on the machine."""
    own = set(home.processes())
    return [each for each in document["servers"] if {pid for pids in each["pids"] for pid in pids} & own]


def test_five_agents_with_three_servers_each_are_counted_as_proc_has_them(agents: Agents) -> None:
    home = agents.home
    document = home.json("savings", "--json")
    found = {each["name"]: each for each in mine(document, home)}
    assert sorted(found) == ["@modelcontextprotocol/server-everything", "mcp-server-time", "notes"]
    known = children()
    started = {pid: family(pid, known) for agent in agents.processes for pid in known[agent.pid]}
    assert len(started) == 15
    assert {pids[0]: set(pids) for each in found.values() for pids in each["pids"]} == started
    for each in found.values():
        pids = {pid for instance in each["pids"] for pid in instance}
        assert (each["runs"], each["withHearth"]) == (5, 1)
        assert each["clients"] == dict.fromkeys(CLIENTS.values(), 1)
        assert memory(pids, "Private_Clean", "Private_Dirty") * 0.8 <= each["memoryBytes"] <= memory(pids, "Rss")
    # The runner, its shell and the server.
    assert {len(pids) for pids in found["@modelcontextprotocol/server-everything"]["pids"]} == {3}
    assert document["now"]["runs"] == sum(each["runs"] for each in document["servers"])
    assert document["withHearth"]["runs"] == sum(each["withHearth"] for each in document["servers"])


def test_the_text_has_the_same_counts(agents: Agents) -> None:
    home = agents.home
    said = home.ok("savings")
    rows = [line.split() for line in said.splitlines() if line.startswith(("mcp-server-time", "notes"))]
    assert Counter(tuple(row[:3]) for row in rows)[("notes", "5", "1")] == 1
    named = [line.split(" MB ")[1].strip() for line in said.splitlines() if line.startswith("notes ")]
    assert [sorted(each.split(", ")) for each in named] == [sorted(CLIENTS.values())]
    assert "With Hearth:" in said
    assert not os.path.exists(home.registry)


def test_servers_of_hearth_are_not_counted_as_waste(home: Home, bridge: Bridge) -> None:
    bridge.ask("tools/call", name="demo__count", arguments={})
    document = home.json("savings", "--json")
    assert mine(document, home) == []
    shared = document["throughHearth"]
    assert min(shared["daemons"], shared["bridges"], shared["processes"]) >= 1
    assert shared["memoryBytes"] > 1_000_000


def test_the_figure_of_what_runs_through_hearth_is_in_status(home: Home, bridge: Bridge) -> None:
    with Bridge(home) as second:
        for each in (bridge, second):
            assert "result" in each.ask("tools/call", name="demo__count", arguments={})
        found = home.json("status", "--json")["savings"]
        assert (found["runs"], found["runsApart"], found["measure"]) == (1, 2, "PSS")
        assert found["memoryApartBytes"] > 0 and found["memoryBytes"] > 0
        assert "Savings: 1 running server instead of 2; " in home.run("status").stdout


def test_with_nothing_running_through_hearth_status_has_no_figure(home: Home) -> None:
    assert "Savings:" not in home.run("status").stdout


def test_a_named_daemon_is_refused(home: Home) -> None:
    assert home.run("--profile", "work", "savings").returncode == 2


def test_it_needs_no_config_and_no_home(home: Home) -> None:
    shutil.rmtree(home.home)
    os.makedirs(home.home)
    assert home.run("savings").returncode == 0
