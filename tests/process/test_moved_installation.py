"""The installation is moved away under a running daemon: what it answers, what doctor finds, and what `--fix` does."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from support.daemon import Scratch
from support.installation import Installation
from support.kernel import BOUND_SECONDS

HEARTH = os.path.join(os.path.dirname(sys.executable), "hearth")


@pytest.fixture
def moved(scratch: Scratch) -> Scratch:
    """A daemon that has not loaded what speaks HTTP, and whose files are gone."""
    scratch.configure({"web": {"url": "http://127.0.0.1:9/mcp"}})
    installation = Installation(scratch.home / "venv")
    scratch.start(command=installation.command)
    assert scratch.status()["package"] == str(installation.package)
    installation.package.rename(scratch.home / "elsewhere")
    return scratch


def doctor(scratch: Scratch, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [HEARTH, "doctor", "--json", *words],
        env=scratch.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * BOUND_SECONDS,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_client_is_told_in_a_sentence(moved: Scratch) -> None:
    with moved.lines() as client:
        client.initialize()
        message = client.call("web__anything")["error"]["message"]
    assert "was moved, replaced or removed" in message
    assert "`hearth doctor --fix`" in message
    for told in (message, moved.upstream("web")["error"]):
        assert "cannot import name" not in told
        assert "No module named" not in told


def test_doctor_finds_it_and_fix_replaces_the_daemon(moved: Scratch) -> None:
    found = {each["id"]: each for each in doctor(moved)["findings"]}
    assert (found["daemon.moved"]["state"], found["daemon.moved"]["fixable"]) == ("broken", True)
    deeds = {each["deed"]: each for each in doctor(moved, "--fix", "--yes")["mended"]}
    assert (deeds["renew"]["done"], deeds["renew"]["error"]) == (True, None)
    assert "daemon.moved" not in {each["id"] for each in doctor(moved)["findings"]}
