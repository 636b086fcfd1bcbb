"""Clients that do not run their hooks: their sessions are shown as unguarded until the first hook is heard."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients import Message
from support.daemon import Scratch
from support.policies import TEAM, Team

STAND_IN = Path(__file__).parents[1] / "support" / "hooked_client.py"
# No question: nobody would answer it.
STRICT = TEAM.replace("[roles.dev]\n", '[roles.dev]\notherwise = "deny"\n')
HEARTH = (sys.executable, "-I", "-m", "hearth")


class Codex:
    """A client named as Codex is, with a session."""

    def __init__(self, scratch: Scratch) -> None:
        program = scratch.home / "codex"
        if not program.exists():
            program.symlink_to(STAND_IN)
        command = [sys.executable, "-I", str(program), *HEARTH]
        self._process = subprocess.Popen(
            command, env=scratch.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        assert self._said() == "attached"

    def run_hook(self, event: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(event + "\n")
        self._process.stdin.flush()
        assert self._said() == event

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def team(scratch: Scratch) -> Team:
    found = Team(scratch, STRICT)
    found.serve()
    return found


@pytest.fixture
def codex(team: Team) -> Iterator[Codex]:
    client = Codex(team.scratch)
    yield client
    client.close()


def sessions(team: Team) -> list[Message]:
    return list(json.loads(team.scratch.hearth("sessions", "--json").stdout))


@pytest.mark.parametrize("event", ["session-start", "pre-tool-use"])
def test_a_session_is_unguarded_until_a_hook_of_its_client_is_heard(team: Team, codex: Codex, event: str) -> None:
    (session,) = sessions(team)
    assert session["unguarded"] is True
    assert "unguarded" in team.scratch.hearth("sessions").stdout
    assert "1 session attached, 1 of them unguarded" in team.scratch.hearth("status").stdout
    codex.run_hook(event)
    (session,) = sessions(team)
    assert session["unguarded"] is False
    assert "unguarded" not in team.scratch.hearth("sessions").stdout
    assert "unguarded" not in team.scratch.hearth("status").stdout


def test_doctor_names_a_client_of_which_no_hook_was_heard(team: Team, codex: Codex) -> None:
    other = Codex(team.scratch)
    try:
        other.run_hook("session-start")
        found = team.scratch.findings()["hooks.unheard"]
        assert f"no hook of process {codex.pid}" in found["message"]
        codex.run_hook("session-start")
        assert "hooks.unheard" not in team.scratch.findings()
    finally:
        other.close()


def test_the_hook_of_one_client_guards_no_other(team: Team, codex: Codex) -> None:
    other = Codex(team.scratch)
    try:
        other.run_hook("session-start")
        assert sorted(each["unguarded"] for each in sessions(team)) == [False, True]
    finally:
        other.close()


def test_a_client_without_hooks_is_not_said_to_be_unguarded(team: Team) -> None:
    team.client()
    (session,) = sessions(team)
    assert session["unguarded"] is None


def test_without_a_policy_nobody_is_said_to_be_unguarded(scratch: Scratch) -> None:
    team = Team(scratch, policy="")
    team.serve()
    client = Codex(scratch)
    try:
        (session,) = sessions(team)
        assert session["unguarded"] is None
        assert "unguarded" not in scratch.hearth("status").stdout
    finally:
        client.close()
