"""A server whose names and texts have control characters: none reaches a terminal, and JSON has them as escapes."""

import json
import os
import re
import sys
from collections.abc import Iterator

import pytest

from e2e.cli_home import HEARTH, Bridge, Home, scratch_home, write
from e2e.fixtures.hostile_server import COLOUR, PARAMETER, TOOL, WEAPON
from e2e.terminal import Terminal
from hearth.masking import UNSAFE

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "hostile_server.py")
# As a config may name a server: TOML has escapes for all of it.
# What the command line writes itself: weights, colours, the erasing of a line, and the terminal's line ends.
OWN = re.compile("\x1b\\[[0-9;]*m|\r\x1b\\[K|\r\n")
NAME = f"host{WEAPON}ile"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """A daemon with a server that works, one that fails, and a session whose client has a hostile name."""
    for made in scratch_home():
        made.environment["COLUMNS"] = "200"
        arguments = json.dumps([SERVER])
        made.write_config(
            f'idle_timeout = 0\n[mcpServers.{json.dumps(NAME)}]\ncommand = "{sys.executable}"\nargs = {arguments}\n'
            f'[mcpServers.{json.dumps("bad" + NAME)}]\ncommand = "/bin/sh"\n'
            f'args = ["-c", "printf \'%s\' {json.dumps(WEAPON)[1:-1]} >&2; exit 3"]\n'
        )
        bridge = Bridge(made, "--server", NAME, "--role", f"role{WEAPON}", "--agent-id", f"agent{WEAPON}")
        try:
            client = {"name": f"client{WEAPON}", "version": WEAPON}
            bridge.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
            assert bridge.ask("tools/call", name="plain", arguments={})["error"]
            assert made.run("call", "bad" + NAME, "plain").returncode == 1
            yield made
        finally:
            bridge.end()


VERBS: list[list[str]] = [
    ["status"],
    ["sessions"],
    ["upstreams"],
    ["upstreams", NAME],
    ["upstreams", "nothing-like-it"],
    ["ps"],
    ["tools"],
    ["tools", "plain"],
    ["tools", "diff"],
    ["call", NAME],
    ["call", NAME, "plain"],
    ["call", NAME, "plai"],
    ["call", NAME, TOOL["name"]],
    ["call", NAME, TOOL["name"], "nothing=x"],
    ["call", NAME, TOOL["name"], f"{PARAMETER}=x", "choice=two"],
    ["call", "bad" + NAME],
    ["logs"],
    ["logs", NAME],
    ["logs", "bad" + NAME],
    ["doctor"],
    ["doctor", "-v"],
    ["config", "show"],
    ["config", "check"],
    ["restart", "bad" + NAME],
    ["auth", "status"],
    ["secret", "list"],
]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: json.dumps(words)[:60])
def test_no_verb_steers_the_terminal(home: Home, words: list[str]) -> None:
    terminal = Terminal([HEARTH, *words], home.environment)
    terminal.finish()
    assert terminal.seen
    assert f"{COLOUR}\ufffd" not in terminal.seen
    assert UNSAFE.findall(OWN.sub("", terminal.seen)) == []


@pytest.mark.parametrize(
    ("words", "held"),
    [
        (["status", "--json"], NAME),
        (["sessions", "--json"], NAME),
        (["upstreams", "--json"], NAME),
        (["ls", "--json"], NAME),
        (["ps", "--json"], NAME),
        (["tools", "--json"], TOOL["name"]),
        (["call", NAME, "--json"], PARAMETER),
        (["call", NAME, "plain", "--json"], f"failed {WEAPON}"),
        (["config", "show", "--json"], NAME),
        (["logs", "--json"], ""),
        (["logs", NAME, "--json"], ""),
        (["doctor", "--json"], ""),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_json_has_escapes_and_loses_nothing(home: Home, words: list[str], held: str) -> None:
    shown = home.run(*words).stdout
    assert shown
    assert UNSAFE.findall(shown) == []
    documents = [json.loads(line) for line in shown.splitlines()] if words[0] == "logs" else json.loads(shown)
    assert json.dumps(held)[1:-1] in json.dumps(documents)


def test_the_logs_are_clean_for_other_programs_too(home: Home) -> None:
    """The files themselves are clean, because they are also read by `cat` and by the journal."""
    for words in (["logs"], ["logs", NAME]):
        assert UNSAFE.findall(home.run(*words).stdout) == []


@pytest.fixture
def plain_home() -> Iterator[Home]:
    yield from scratch_home()


def test_the_diff_of_a_client_s_file_has_its_colours_and_none_of_the_file_s(plain_home: Home) -> None:
    entry = {"command": sys.executable, "args": [SERVER]}
    text = json.dumps({"mcpServers": {f"{COLOUR}mine{WEAPON}\n+ forged": entry}}, indent="\t")
    write(os.path.join(plain_home.home, ".claude.json"), text)
    plain_home.ok("import", "claude-code", "--yes")
    seen = plain_home.at_terminal(0, "connect", "claude-code", "--dry-run", "--no-try")
    assert "\x1b[36m@@ mcpServers.\ufffd" in seen
    assert "\n+ forged" not in seen
    assert UNSAFE.findall(OWN.sub("", seen)) == []
