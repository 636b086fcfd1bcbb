"""The status document as text."""

from typing import Any

import pytest

from hearth.output.status_lines import client_name, session_lines, sessions_text, status_lines, upstream_lines
from hearth.paths import Places


def running(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "running": True,
        "pid": 4242,
        "endpoint": "/run/user/1/mcp/mcp.sock",
        "version": "0.1.0",
        "uptimeSeconds": 61.0,
        "profile": "mcp",
        "configPath": "/home/u/config.toml",
        "configError": None,
        "activation": "systemd",
        "degraded": None,
        "owner": "s1",
        "sessions": [{"id": "s1", "client": "claude", "era": "modern", "connectedAt": 0, "isOwner": True, "pid": 7}],
        "upstreams": [{"name": "time", "state": "running", "era": "legacy", "pids": [8, 9], "tools": 2}],
    }
    return document | changes


def text(**changes: Any) -> str:
    return "\n".join(status_lines(running(**changes), 100))


def test_a_running_daemon_is_named_with_its_pid_and_who_lit_it() -> None:
    assert "pid 4242, up 1 min, lit by systemd" in text()
    assert "up 1 min, holding its own socket" in text(activation="self")


def test_a_server_is_shown_with_its_processes_and_tools() -> None:
    assert "time" in text()
    assert "8 9" in text()


def test_the_reason_of_a_failed_server_is_shown_below_the_table() -> None:
    broken = {"name": "git", "state": "failed", "pids": [], "tools": None, "error": "npx is not on PATH"}
    assert "git failed: npx is not on PATH" in text(upstreams=[broken])


def test_of_a_server_that_waits_for_its_next_start_it_is_shown_for_how_long() -> None:
    waiting = {"name": "git", "state": "given up", "error": "it fell over", "instances": [{"retrySeconds": 200.0}]}
    shown = text(upstreams=[waiting])
    assert "given up" in shown
    assert "git: it fell over (not tried again for 3 min, or until `hearth reload`)" in " ".join(shown.split())


def test_a_refused_config_and_a_degraded_daemon_are_told() -> None:
    shown = text(configError="line 3: no such key", degraded="read-only folder")
    assert "line 3: no such key" in shown
    assert "read-only folder" in shown
    assert "degraded" not in text()


def test_no_servers_and_no_sessions_are_told_in_words() -> None:
    shown = text(upstreams=[], sessions=[])
    assert "No MCP server is configured" in shown
    assert "Nobody is attached" in shown


def test_sessions_over_http_between_two_requests_are_not_called_attached() -> None:
    idle = {"id": "h", "wire": "http", "active": False, "inFlight": 0}
    assert "Nobody is attached, 1 session over HTTP idle; `hearth sessions`" in text(sessions=[idle])
    busy = [idle | {"active": True}, idle | {"inFlight": 1}, {"id": "s", "wire": "frames", "active": False}]
    assert "3 sessions attached, 2 sessions over HTTP idle; " in text(sessions=[*busy, idle, idle])


def test_when_nothing_runs_the_text_says_what_would_light_it() -> None:
    lines = status_lines({"running": False, "lights": "The first bridge starts it.", "endpoint": "/s"}, 80)
    assert lines[0] == "hearth is not running (profile mcp). The first bridge starts it."


@pytest.mark.parametrize("is_lit", [True, False])
def test_a_daemon_is_called_by_its_profile_or_by_its_config(is_lit: bool) -> None:
    by_config = {"running": is_lit, "profile": Places("", "/home/u/odd.toml").key, "configPath": "/home/u/odd.toml"}
    assert f"hearth is {'' if is_lit else 'not '}running (config odd.toml)" in status_lines(by_config, 80)[0]
    assert "(profile work)" in status_lines(by_config | {"profile": "work"}, 80)[0]


def test_a_document_with_missing_keys_is_shown_as_far_as_it_goes() -> None:
    assert status_lines({"running": True}, 80)
    assert session_lines([{}], 0.0, 80)


def test_sessions_show_the_owner_with_a_star_and_a_silent_one_with_a_z() -> None:
    known = [{"id": "a", "isOwner": True}, {"id": "b", "active": False}, {"id": "c", "active": True}]
    assert [line[:1] for line in session_lines(known, 0.0, 200)[1:]] == ["*", "z", " "]


def test_a_client_is_named_by_text_or_by_name_and_version() -> None:
    assert client_name({"client": "codex"}) == "codex"
    assert client_name({"client": {"name": "codex", "version": "1.2"}}) == "codex 1.2"
    assert client_name({"client": None}) == "-"


def test_sessions_of_nothing_are_nobody() -> None:
    assert "nobody is attached" in sessions_text({"running": False, "lights": ""}, 80)[0]


def test_servers_whose_tools_have_changed_are_marked() -> None:
    upstreams = [
        {"name": "calm", "state": "ready", "pin": True, "changedTools": [], "pinError": None},
        {"name": "one", "state": "ready", "pin": False, "changedTools": ["a"], "pinError": None},
        {"name": "two", "state": "ready", "pin": True, "changedTools": ["a", "b"], "pinError": None},
        {"name": "blind", "state": "ready", "pin": True, "changedTools": [], "pinError": "/x: is a directory"},
        {"name": "lax", "state": "ready", "pin": False, "changedTools": [], "pinError": "/x: is a directory"},
    ]
    assert upstream_lines(upstreams, 100)[6:] == [
        "one: 1 tool changed or new since last approved; `hearth tools diff one` shows them",
        "two: 2 tools changed or new since last approved, and withheld; `hearth tools diff two` shows them",
        "blind: its tools are withheld: /x: is a directory",
        "lax: changes of its tools cannot be told: /x: is a directory",
    ]


def test_a_session_over_http_is_idle_between_its_requests_and_not_stopped() -> None:
    known = [{"id": "a", "active": False, "wire": "http"}, {"id": "b", "active": False, "wire": "frames"}]
    assert [line.split()[0] for line in session_lines(known, 0.0, 200)[1:]] == ["idle", "z"]


LONG = "a-server-with-quite-a-long-name"
SESSION = {
    "id": "0123456789abcdef",
    "client": {"name": "claude-code", "version": "2.1.0"},
    "server": LONG,
    "version": "2025-11-25",
    "pid": 1234567,
    "connectedAt": 0,
    "cwd": "/home/somebody/projects/with/a/long/path/to/it",
}


def test_a_session_is_shown_with_its_server_role_and_agent() -> None:
    known: list[dict[str, Any]] = [{"server": "git", "role": "reviewer", "agentId": "agent-7"}, {"server": None}]
    header, first, second = session_lines(known, 0.0, 200)
    assert header.split()[:5] == ["ID", "CLIENT", "SERVER", "ROLE", "AGENT"]
    assert ("git" in first, "reviewer" in first, "agent-7" in first, " all " in second) == (True, True, True, True)
    assert "ROLE" not in session_lines([SESSION], 0.0, 200)[0]


@pytest.mark.parametrize("width", [80, 100])
def test_sessions_fit_the_terminal_with_their_names_whole(width: int) -> None:
    lines = session_lines([SESSION], 0.0, width)
    assert all(len(line) <= width for line in lines)
    for name in ("0123456789abcdef", "claude-code 2.1.0", LONG):
        assert name in lines[1]


def test_a_long_agent_id_takes_the_place_of_the_sessions_own_id() -> None:
    agent = "3f2b8c1e-9d4a-4f6b-8a7c-1d2e3f4a5b6c"
    lines = session_lines([{**SESSION, "server": "git", "agentId": agent}], 0.0, 80)
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].split() == ["claude-code", "2.1.0", "git", agent]


def test_servers_and_their_failures_fit_the_terminal_with_their_names_whole() -> None:
    upstreams = [{"name": LONG, "state": "failed", "error": "it fell over " * 20, "pids": list(range(100000, 100020))}]
    for lines in (upstream_lines(upstreams, 80), sessions_text(running(upstreams=upstreams), 80)):
        assert all(len(line) <= 80 for line in lines)
        assert any(line.startswith(f"{LONG} failed: it fell over") for line in lines)


POLICY = {"roles": ["tl", "dev"], "defaultRole": "dev", "error": None, "waiting": None, "pending": 0}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "policy   roles tl, dev (default)"),
        ({"pending": 1}, "roles tl, dev (default); 1 call waiting for a decision (`hearth approvals`)"),
        ({"waiting": "3f9a01c24b7700"}, "; a change waits: 3f9a01c24b77 (`hearth policy apply`)"),
        (
            {"error": "policy.toml:3: no"},
            "; the file is broken (`hearth policy check`), and the last good one in force: policy.toml:3: no",
        ),
    ],
)
def test_a_policy_is_one_line_with_whatever_waits(changes: dict[str, object], line: str) -> None:
    assert line in text(policy={**POLICY, **changes})
    assert "policy" not in text()
