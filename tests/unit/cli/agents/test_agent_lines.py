"""Lines about agents: the table, one agent, permissions, entries of a timeline. Agents' texts are harmless in them."""

from typing import Any

import click
import pytest

from hearth.cli.agents import agent_lines

HOME = "/home/me"
NOW = 1_800_000_000.0


def agent(**changes: Any) -> dict[str, Any]:
    return {
        "id": "a1",
        "title": "Fix the login",
        "provider": "claude",
        "role": None,
        "status": "running",
        "currentModeId": "default",
        "availableModes": [{"id": "default", "label": "Default"}, {"id": "plan", "label": "Plan"}],
        "cwd": f"{HOME}/site",
        "createdAt": NOW - 90,
        "pendingPermissions": [],
        **changes,
    }


ASKED = {"id": "3f9a01c2", "name": "Bash", "title": "Bash", "input": {"command": "rm -rf build"}}


def plain(lines: list[str]) -> str:
    return click.unstyle("\n".join(lines))


def test_a_row_has_what_tells_agents_apart_and_no_column_that_is_empty_everywhere() -> None:
    head, row = agent_lines.agent_table([agent()], NOW, 200, HOME)
    assert head.split() == ["ID", "TITLE", "PROVIDER", "STATUS", "MODE", "CWD", "AGE"]
    assert row.split("  ")[0] == "a1"
    assert "~/site" in row
    assert row.endswith("2 min")


def test_role_and_parent_are_columns_where_an_agent_has_them() -> None:
    head = agent_lines.agent_table([agent(role="dev", parentAgentId="a0"), agent(id="a2")], NOW, 200, HOME)[0]
    assert "ROLE" in head
    assert "PARENT" in head


def test_on_a_narrow_terminal_ids_and_titles_stay() -> None:
    lines = agent_lines.agent_table([agent()], NOW, 40, HOME)
    assert all(len(line) <= 40 for line in lines)
    assert "Fix the login" in lines[1]


def test_without_agents_it_is_said_how_to_start_one() -> None:
    assert "hearth agent run" in plain(agent_lines.agent_table([], NOW, 80, HOME))


def test_what_waits_for_a_person_is_said_with_the_command_to_type() -> None:
    shown = plain(agent_lines.agent_table([agent(pendingPermissions=[ASKED])], NOW, 200, HOME))
    assert "1 permission waits for a decision:" in shown
    assert '3f9a01c2  a1: Bash {"command": "rm -rf build"}' in shown
    assert "hearth approve 3f9a01c2, or hearth deny 3f9a01c2" in shown


@pytest.mark.parametrize("hostile", ["\x1b]0;owned\x07", "a\nb", "\u202eevil", "\x9b31m"])
def test_no_text_of_an_agent_controls_the_terminal(hostile: str) -> None:
    asked = {**ASKED, "title": hostile, "input": {"command": hostile}}
    document = agent(title=hostile, cwd=hostile, lastError=hostile, pendingPermissions=[asked], labels={"x": hostile})
    entries = [
        {"kind": "message", "text": hostile},
        {"kind": "tool", "title": hostile, "status": "failed"},
        {"kind": "plan", "entries": [{"content": hostile, "status": "pending"}]},
        {"kind": "error", "text": hostile},
        {"kind": "mode", "mode": hostile},
    ]
    lines = [
        *agent_lines.agent_table([document], NOW, 200, HOME),
        *agent_lines.agent_lines(document, NOW, HOME),
        *map(agent_lines.entry_text, entries),
    ]
    shown = plain(lines)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    # Only a message, an error and a prompt may have several lines.
    assert "a\nb" not in plain(agent_lines.agent_table([document], NOW, 200, HOME))


def test_one_agent_is_shown_with_its_worktree_modes_and_error() -> None:
    worktree = {"path": "/w/login", "branch": "login", "base": "main", "repository": "/r", "name": "login"}
    shown = plain(agent_lines.agent_lines(agent(worktree=worktree, lastError="no key", model="opus"), NOW, HOME))
    assert "/w/login, branch login from main" in shown
    assert "default (also: plan)" in shown
    assert "claude (opus)" in shown
    assert "no key" in shown


@pytest.mark.parametrize("value", [NOW, "2027-01-15T08:00:00Z", "2027-01-15T08:00:00+00:00"])
def test_times_are_numbers_or_iso_8601(value: object) -> None:
    assert agent_lines.seconds_of(value) == NOW


@pytest.mark.parametrize("value", [None, True, "yesterday", []])
def test_anything_else_is_no_time(value: object) -> None:
    assert agent_lines.seconds_of(value) is None


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"kind": "user", "text": "do it\nnow"}, "> do it\n  now"),
        ({"kind": "message", "text": "done"}, "done"),
        ({"kind": "tool", "name": "Bash", "title": "npm test", "status": "completed"}, "[npm test]"),
        ({"kind": "tool", "title": "npm\n test", "status": "failed"}, "[npm test (failed)]"),
        ({"kind": "error", "text": "no key"}, "error: no key"),
        ({"kind": "mode", "mode": "plan"}, "[mode plan]"),
        (
            {
                "kind": "plan",
                "entries": [
                    {"content": "a", "status": "completed"},
                    {"content": "b", "status": "in_progress"},
                    {"content": "c"},
                ],
            },
            "- [x] a\n- [~] b\n- [ ] c",
        ),
        ({"kind": "state", "status": "idle"}, ""),
    ],
)
def test_an_entry_is_shown_by_its_kind(entry: dict[str, Any], text: str) -> None:
    assert click.unstyle(agent_lines.entry_text(entry)) == text
