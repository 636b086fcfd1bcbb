"""Policies of trusted projects, and changes of the policy that wait, in a running daemon."""

import json
from pathlib import Path

import pytest

from support.clients import FramesClient
from support.daemon import Scratch
from support.kernel import until
from support.policies import TEAM, Team

PROJECT = (
    '[roles.dev]\ntools = ["**", "!echo__echo"]\n\n[[rules]]\ntool = "count__once"\ndecide = "deny"\nreason = "no"\n'
)
MANUAL = TEAM.replace('default_role = "dev"', 'default_role = "dev"\napply = "manual"')


@pytest.fixture
def team(scratch: Scratch) -> Team:
    found = Team(scratch)
    found.serve()
    return found


@pytest.fixture
def project(scratch: Scratch) -> Path:
    folder = scratch.home / "shop"
    (folder / ".hearth").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".hearth" / "policy.toml").write_text(PROJECT)
    return folder


def sees_echo(client: FramesClient) -> bool:
    return "echo__echo" in client.tools()


def test_a_trusted_project_narrows_lists_and_calls_of_sessions_in_it_only(team: Team, project: Path) -> None:
    inside, outside = team.client(cwd=str(project)), team.client()
    assert sees_echo(inside) and sees_echo(outside)
    assert inside.call("echo__echo", text="x")["result"]["content"][0]["text"] == "x"
    done = team.person("policy", "trust", str(project), "--yes")
    assert done.returncode == 0, done.stderr
    until(lambda: not sees_echo(inside), "the project's policy counts")
    assert sees_echo(outside)
    refused = inside.call("echo__echo", text="x")["error"]
    assert refused["message"] == "tool 'echo__echo' not available for role 'dev'"
    assert inside.call("count__once", key="k")["result"]["content"][0]["text"] == "denied by policy: no"
    assert outside.call("echo__echo", text="x")["result"]["content"][0]["text"] == "x"


def test_a_later_change_of_the_project_s_file_does_not_count_until_it_is_trusted(team: Team, project: Path) -> None:
    assert team.person("policy", "trust", str(project), "--yes").returncode == 0
    (project / ".hearth" / "policy.toml").write_text("")
    inside = team.client(cwd=str(project))
    assert not sees_echo(inside)
    listed = team.person("policy", "trust", "--list")
    assert "changed" in listed.stdout and "the trusted copy stays in force" in listed.stdout
    assert team.person("policy", "untrust", str(project)).returncode == 0
    until(lambda: sees_echo(inside), "the project's policy counts no longer")


def test_a_trusted_project_counts_after_a_restart(team: Team, project: Path) -> None:
    assert team.person("policy", "trust", str(project), "--yes").returncode == 0
    assert team.person("restart", "--yes").returncode == 0
    team.scratch.start()
    assert not sees_echo(team.client(cwd=str(project)))


def test_a_shell_below_an_agent_trusts_and_applies_nothing_and_gets_no_token(team: Team, project: Path) -> None:
    """The test's own process is the client here, so whatever it starts is below an agent."""
    team.write(MANUAL)
    dev = team.client()
    team.write(MANUAL + "\n")
    until(lambda: waiting(team) is not None, "a change waits")
    tokens = len(team.tokens.list())
    for words in (
        ("policy", "trust", str(project), "--yes"),
        ("policy", "untrust", str(project)),
        ("policy", "apply", "--yes"),
        ("role", "token", "tl"),
        ("role", "revoke", "0"),
    ):
        done = team.scratch.hearth(*words)
        assert (done.returncode, "for a person" in done.stderr) == (5, True), (words, done)
    assert sees_echo(dev) and waiting(team) is not None
    assert len(team.tokens.list()) == tokens


def waiting(team: Team) -> str | None:
    """The digest of a change that waits."""
    with FramesClient(team.scratch.socket) as control:
        _, payload = control.control("status")
    found: str | None = json.loads(payload)["policy"]["waiting"]
    return found


def test_a_change_waits_for_a_person_who_names_its_digest(scratch: Scratch) -> None:
    team = Team(scratch, MANUAL)
    team.serve()
    dev = team.client()
    team.write(MANUAL.replace('"echo__*", ', ""))
    until(lambda: waiting(team) is not None, "a change waits")
    assert sees_echo(dev)
    digest = waiting(team) or ""
    asked = team.person("policy", "apply")
    assert asked.returncode == 5 and digest[:12] in asked.stderr and '-tools = ["echo__*"' in asked.stderr
    wrong = team.person("policy", "apply", "0000", "--yes")
    assert wrong.returncode == 5 and digest[:12] in wrong.stderr
    done = team.person("policy", "apply", digest[:12], "--yes", "--json")
    assert json.loads(done.stdout)["applied"] == digest, done.stderr
    until(lambda: not sees_echo(dev), "the change is in force")
    again = team.person("policy", "apply")
    assert (again.returncode, again.stdout) == (0, "No change of the policy waits.\n")


def test_a_lead_may_apply_a_change(scratch: Scratch) -> None:
    """The test's own process is the client here, so that its command is the lead's."""
    team = Team(scratch, MANUAL)
    team.serve()
    team.client("tl")
    team.write(MANUAL + "\n")
    until(lambda: waiting(team) is not None, "a change waits")
    assert team.scratch.hearth("policy", "apply", "--yes").returncode == 0
    assert waiting(team) is None


def test_a_change_that_was_applied_is_in_force_after_a_restart_and_another_waits(scratch: Scratch) -> None:
    team = Team(scratch, MANUAL)
    team.serve()
    team.write(MANUAL.replace('"echo__*", ', ""))
    assert team.person("restart", "--yes").returncode == 0
    team.scratch.start()
    assert waiting(team) is not None
    assert sees_echo(team.client())
