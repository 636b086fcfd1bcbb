"""`[audit]` of the policy: what a running daemon records, and what it records in any case."""

import json

import pytest

from support.daemon import Daemon, Scratch
from support.policies import TEAM, Team

OFF = "[audit]\nenabled = false\n"


@pytest.fixture
def team(scratch: Scratch) -> Team:
    return Team(scratch)


def rows(team: Team, daemon: Daemon) -> list[tuple[str, str, str]]:
    """Return kind, tool and decision of every row, once the daemon has written all of them."""
    daemon.stop()
    shown = team.scratch.hearth("audit", "--json", "-n", "1000")
    found = [json.loads(line) for line in shown.stdout.splitlines()]
    return [(row["kind"], row["tool"], row["decision"]) for row in found]


def decided_call(team: Team) -> None:
    """Make a call that a person approves."""
    dev = team.client()
    id = dev.begin_call("count__once", key="k1")
    (waiting,) = team.wait_pending()
    assert team.person("approve", str(waiting["id"])).returncode == 0
    assert "result" in dev.answer_to(id)


def test_calls_denials_and_decisions_are_recorded(team: Team) -> None:
    daemon = team.serve()
    dev = team.client()
    dev.call("echo__echo", text="x")
    dev.call("echo__add", a=1, b=1)
    dev.call("count__put", key="k1")
    decided_call(team)
    assert rows(team, daemon) == [
        ("call", "echo", "allow"),
        ("call", "add", "deny"),
        ("call", "put", "deny"),
        ("decision", "once", "approved"),
        ("call", "once", "ask"),
    ]


def test_without_the_log_of_calls_decisions_of_people_are_recorded_all_the_same(team: Team) -> None:
    team.write(TEAM + OFF)
    daemon = team.serve()
    dev = team.client()
    dev.call("echo__echo", text="x")
    dev.call("echo__add", a=1, b=1)
    decided_call(team)
    assert rows(team, daemon) == [("decision", "once", "approved")]


def test_a_reload_switches_the_log_of_calls(team: Team) -> None:
    team.write(TEAM + OFF)
    daemon = team.serve()
    team.client().call("echo__echo", text="x")
    team.write(TEAM)
    # A hello looks at the file.
    team.client().call("echo__add", a=1, b=1)
    assert rows(team, daemon) == [("call", "add", "deny")]
