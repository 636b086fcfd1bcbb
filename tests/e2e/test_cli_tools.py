"""`hearth tools`: what a running daemon knows, what is kept of servers that ran before, and nothing is woken for it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cli_home import Bridge, Home, attached_bridge
from hearth.demo.server import DEFINITIONS

NAMES = sorted(f"demo__{tool['name']}" for tool in DEFINITIONS)


@pytest.fixture
def bridge(home: Home) -> Iterator[Bridge]:
    for bridge in attached_bridge(home):
        bridge.ask("tools/list")
        yield bridge


def found(home: Home, *words: str) -> list[str]:
    return [tool["name"] for tool in home.json("tools", "--json", *words)]


def test_the_tools_of_a_running_daemon_are_listed_in_columns_and_as_json(home: Home, bridge: Bridge) -> None:
    assert found(home) == NAMES
    (added,) = [tool for tool in home.json("tools", "--json") if tool["name"] == "demo__add"]
    assert (added["server"], added["tool"]) == ("demo", "add")
    assert added["definition"] == DEFINITIONS[0]
    shown = home.run("tools").stdout
    assert shown.splitlines()[0].split()[0] == "TOOL"
    assert "demo__add" in shown and "Add two numbers." in shown


def test_a_query_ranks_as_the_search_of_agents_does(home: Home, bridge: Bridge) -> None:
    with Bridge(home, "--mode", "search") as searching:
        asked = {"name": "find_tools", "arguments": {"query": "process id", "limit": 50}}
        (block,) = searching.ask("tools/call", **asked)["result"]["content"]
        listed = [line.split(":")[0][2:] for line in block["text"].splitlines() if line.startswith("- ")]
        assert found(home, "process", "id") == listed
        assert listed[0] == "demo__whoami"


def test_with_no_daemon_what_was_offered_before_is_told_in_the_same_way_and_nothing_is_woken(
    home: Home, bridge: Bridge
) -> None:
    before = home.run("tools").stdout, home.run("tools", "process", "id").stdout
    bridge.leave()
    assert home.run("stop", "--yes").returncode == 0
    assert (home.run("tools").stdout, home.run("tools", "process", "id").stdout) == before
    assert home.json("status", "--json")["running"] is False
    assert home.processes() == []


def test_servers_that_never_ran_are_named(home: Home) -> None:
    home.configure_demo()
    said = home.ok("tools")
    assert "No tool is known." in said
    assert "they have never run: the tools of demo." in said
    assert found(home) == []
    assert home.processes() == []


def test_what_was_kept_and_makes_no_sense_is_not_spoken_of(home: Home, bridge: Bridge) -> None:
    bridge.end()
    assert home.run("stop", "--yes").returncode == 0
    (kept,) = Path(home.home, ".local", "state", "hearth", "catalogue", "mcp").glob("*.json")
    kept.write_text("{")
    done = home.run("tools")
    assert (done.returncode, done.stderr) == (0, "")
    assert "the tools of demo" in done.stdout


def test_of_one_server_only(home: Home, bridge: Bridge) -> None:
    assert found(home, "--server", "demo") == NAMES
    assert "Did you mean 'demo'?" in home.fails(2, "tools", "--server", "dmo")


def test_a_limit_says_what_it_leaves_out(home: Home, bridge: Bridge) -> None:
    assert found(home, "--limit", "2") == NAMES[:2]
    assert f"{len(NAMES) - 2} more: --limit shows them." in home.run("tools", "--limit", "2").stdout
    assert "No tool fits that" in home.run("tools", "xyzzy").stdout


def test_words_that_look_like_options_are_a_query_behind_two_dashes(home: Home, bridge: Bridge) -> None:
    assert found(home, "--", "--process-id")[0] == "demo__whoami"


def test_a_config_that_is_wrong_is_told_where_no_daemon_runs(home: Home) -> None:
    home.write_config("x = 1\n")
    assert "'x' is not known" in home.refuses(2, "tools")


def test_a_daemon_that_cannot_serve_says_why(home: Home) -> None:
    home.write_config(f'idle_timeout = 0\nx = 1\n[mcpServers.demo]\ncommand = "{sys.executable}"\n')
    bridge = Bridge(home)
    try:
        assert "'x' is not known" in bridge.ask("ping")["error"]["message"]
        assert "'x' is not known" in home.fails(5, "tools")
    finally:
        bridge.end()
