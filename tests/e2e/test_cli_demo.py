"""`hearth demo`: what it shows is so, and nothing stays behind, also when it is interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from e2e.cli_home import HEARTH, Home
from e2e.terminal import Terminal
from hearth.host import processes
from hearth.output.terminal import CLEAR_LINE

# The demo starts a dozen servers that import a large SDK; on a loaded machine that takes a minute.
DEMO_SECONDS = 100.0


def run_demo(home: Home, *words: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [HEARTH, "demo", *words],
        env=home.environment | changes,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )


def is_gone(pid: int) -> bool:
    return not processes.is_alive(pid, processes.UNKNOWN_START_TIME)


def test_the_figures_are_those_of_one_daemon_and_one_server(home: Home) -> None:
    done = run_demo(home, "--agents", "3", "--json")
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    assert sorted(shown["counts"]) == [1, 2, 3]
    assert len(set(shown["answeredBy"])) == len(set(shown["daemonIds"])) == 1
    assert len(shown["hearth"]["serverPids"]) == len(shown["servers"])
    assert len(shown["apart"]["serverPids"]) == 3 * len(shown["servers"])
    assert set(shown["eras"]) == {"legacy", "modern"}
    assert (shown["kill"]["answered"], shown["kill"]["bridgesAlive"]) == (3, 3)
    assert shown["kill"]["pidBefore"] == shown["daemonPid"] != shown["kill"]["pidAfter"]
    assert shown["idle"]["pid"] == shown["kill"]["pidAfter"]
    assert shown["idle"]["seconds"] >= shown["idle"]["timeoutSeconds"]
    assert min(shown["hearth"][part] for part in ("serversBytes", "daemonBytes", "bridgesBytes")) > 0
    everybody = [shown["kill"]["pidBefore"], shown["kill"]["pidAfter"], *shown["hearth"]["serverPids"]]
    assert all(is_gone(pid) for pid in [*everybody, *shown["apart"]["serverPids"]])
    assert os.listdir(home.home) == [], "the user's own home is not touched"


def test_on_a_terminal_there_is_a_spinner_and_then_a_table_of_eighty_columns(home: Home) -> None:
    terminal = Terminal([HEARTH, "demo", "--agents", "2"], home.environment | {"COLUMNS": "80"})
    # It takes seconds, whatever the machine: a call of one second is killed half-way, and the idle time is another.
    terminal.read_until(CLEAR_LINE)
    terminal.read_until("left behind")
    assert terminal.finish() == 0
    table = terminal.seen[terminal.seen.index("┌") :].replace("\r", "").splitlines()
    assert all(len(line) <= 80 for line in table)


# An installed wheel has no server but the demo's own.
WITHOUT_OTHER_SERVERS = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "mcp_server_time" else find(name, package)
from hearth.cli.main import main
raise SystemExit(main(["demo", "--agents", "2", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_without_a_server_of_realistic_weight_it_says_so_and_compares_nothing(
    home: Home, words: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_OTHER_SERVERS, *words],
        env=home.environment,
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if words:
        shown = json.loads(done.stdout)
        assert (shown["servers"], shown["apart"], shown["apartBytes"]) == (["demo"], None, None)
        assert shown["kill"]["answered"] == 2
    else:
        assert "no MCP server of realistic weight" in " ".join(done.stdout.split())
        assert "each its own" not in done.stdout
        assert done.stdout.rstrip().endswith("hearth setup --dry-run")


def scratch_folder(demo: "subprocess.Popen[bytes]") -> str:
    """The scratch home of a running demo, seen in the environment of its first child."""
    deadline = time.monotonic() + DEMO_SECONDS
    while time.monotonic() < deadline and demo.poll() is None:
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                with open(f"/proc/{name}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
            except OSError:
                continue
            homes = [each[5:].decode() for each in variables if each.startswith(b"HOME=/tmp/hearth-demo-")]
            if parent == demo.pid and homes:
                return os.path.dirname(homes[0])
    raise AssertionError("the demo started nothing")


def processes_of(folder: str) -> list[int]:
    found = Home.__new__(Home)
    found.home = os.path.join(folder, "home")
    return found.processes()


@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGINT, "with a daemon"), (signal.SIGTERM, "at the first server"), (signal.SIGHUP, "with a daemon")],
)
def test_an_interrupted_demo_leaves_no_process_and_no_file(home: Home, number: int, moment: str) -> None:
    demo = subprocess.Popen(
        [HEARTH, "demo", "--agents", "2"], env=home.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        folder = scratch_folder(demo)
        if moment == "with a daemon":
            wait_for_daemon(demo, os.path.join(folder, "run", "mcp", "mcp", "daemon.json"))
        demo.send_signal(number)
        _, said = demo.communicate(timeout=DEMO_SECONDS)
    finally:
        demo.kill()
        demo.communicate()
    assert demo.returncode == 130
    assert said.strip() == b"hearth: interrupted."
    assert not os.path.exists(folder)
    assert processes_of(folder) == []


def wait_for_daemon(demo: "subprocess.Popen[bytes]", registry: str) -> None:
    deadline = time.monotonic() + DEMO_SECONDS
    while not os.path.exists(registry):
        assert time.monotonic() < deadline and demo.poll() is None
        time.sleep(0.01)
