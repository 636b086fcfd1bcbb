"""Every example with curl in README.md and docs/ is run as it stands there, in a shell, against a real daemon.

The home is one where `hearth add time` was typed, as README has it, with the pack `agents`, and HTTP is served on the
port that the pages name.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Scratch
from support.kernel import BOUND_SECONDS
from support.requirements import needs, needs_program

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
# The one that units, command line and pages agree on.
PORT = 3847
# Stands before curl, and notes what every user of the machine may see of it.
WITNESS = """#!/bin/sh
printf '%s\\n' "$@" >> "$HOME/arguments"
exec {curl} "$@"
"""


def examples() -> Iterator[Any]:
    """The blocks of code in which a line, or a part of one, begins with curl."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))):
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
            if re.search(r"(^|[|;&({`]) *curl ", found[1], re.MULTILINE):
                line = text.count("\n", 0, found.start()) + 1
                yield pytest.param(found[1], id=f"{page.name}-{line}")


EXAMPLES = list(examples())


@pytest.fixture(scope="module")
def home(shared: Scratch) -> Scratch:
    needs_program("curl")
    # What is not 2xx is a failure, and so is what takes too long; the examples need not say so.
    (shared.home / ".curlrc").write_text("fail\nsilent\nshow-error\nmax-time = 15\n")
    shared.configure({"time": {"command": str(PROGRAMS / "mcp-server-time"), "args": ["--local-timezone", "UTC"]}})
    with shared.config.open("a", encoding="utf-8") as config:
        config.write("\n[packs.agents]\nenabled = true\n")
    with socket.socket() as probe:
        free = probe.connect_ex(("127.0.0.1", PORT)) != 0
    needs(free, f"port {PORT}, which is taken by somebody else")
    shared.start("--http", f"127.0.0.1:{PORT}")
    witness = shared.home / "witness" / "curl"
    witness.parent.mkdir()
    witness.write_text(WITNESS.format(curl=shutil.which("curl")))
    witness.chmod(0o755)
    return shared


def typed(home: Scratch, script: str) -> str:
    """What the lines print, each of them having succeeded."""
    path = os.pathsep.join((str(home.home / "witness"), str(PROGRAMS), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=home.environment(PATH=path),
        cwd=home.home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS * 3,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def documents(text: str) -> list[Any]:
    """The JSON documents that were printed one after the other; anything else fails the test."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while rest := text[at:].lstrip():
        document, end = decoder.raw_decode(rest)
        found.append(document)
        at = len(text) - len(rest) + end
    return found


@pytest.mark.parametrize("script", EXAMPLES)
def test_an_example_of_the_pages_works_as_it_stands(home: Scratch, script: str) -> None:
    printed = documents(typed(home, script))
    assert printed and not [each for each in printed if "error" in each]
    results = [each["result"] for each in printed if "jsonrpc" in each]
    assert not [each for each in results if each.get("isError")]
    # What was asked for is what came.
    assert ('"tools/list"' in script) == any("tools" in each for each in results)
    assert ('"tools/call"' in script) == any("content" in each for each in results)
    assert ("/healthz" in script) == ({"status": "ok"} in printed)
    assert ("/status" in script) == any(each.get("pid") == home.status()["pid"] for each in printed)


def test_no_example_has_the_token_where_every_user_can_see_it(home: Scratch) -> None:
    token = typed(home, "hearth token show").strip()
    for example in EXAMPLES:
        typed(home, example.values[0])
    seen = (home.home / "arguments").read_text()
    assert f"http://127.0.0.1:{PORT}/status" in seen
    assert token and token not in seen


def test_readme_shows_health_the_tools_and_a_call_on_the_socket() -> None:
    [script] = [each.values[0] for each in EXAMPLES if each.id.startswith("README")]
    assert all(part in script for part in ("--unix-socket", "/healthz", '"tools/list"', '"tools/call"', "/mcp/time"))


def test_an_example_that_is_refused_would_be_noticed(home: Scratch) -> None:
    with pytest.raises(AssertionError):
        typed(home, 'curl --unix-socket "$XDG_RUNTIME_DIR/mcp/mcp.sock" http://localhost/nothing')
