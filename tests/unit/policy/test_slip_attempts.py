"""Arguments that try to slip past a matcher are asked or denied, never allowed; legitimate ones are allowed."""

import json
from pathlib import Path

import pytest

from hearth.policy.decision import decide
from hearth.policy.model import Policy

from .slip_attempts import ATTEMPTS, LEGITIMATE, LEGITIMATE_SERVER_CALLS, SERVER_ATTEMPTS

# Fewer would leave whole kinds of tricks without an attempt.
FEWEST_ATTEMPTS = 150
EVERY_ATTEMPT = [(trick, attempt) for trick, attempts in ATTEMPTS.items() for attempt in attempts]


def call(attempt: object, home: Path) -> tuple[str, bytes]:
    """Return the tool and the raw arguments of an attempt."""
    tool, arguments = ("Bash", {"command": attempt}) if isinstance(attempt, str) else attempt  # type: ignore[misc]
    if isinstance(arguments, bytes):
        return tool, arguments
    return tool, json.dumps(arguments).replace("{home}", str(home)).encode()


def shown(value: object) -> str:
    return ascii(value)[:60]


def test_the_table_is_large() -> None:
    assert len({shown(attempt) + str(hash(str(attempt))) for _, attempt in EVERY_ATTEMPT}) >= FEWEST_ATTEMPTS


@pytest.mark.parametrize("trick", ATTEMPTS)
def test_attempts_are_never_allowed(trick: str, team: Policy, project: Path, home: Path) -> None:
    for attempt in ATTEMPTS[trick]:
        tool, arguments = call(attempt, home)
        decision = decide(team, "dev", None, tool, arguments, str(project))
        assert decision.outcome in ("ask", "deny"), (shown(attempt), decision)
        assert decision.reason
        assert decision.source


def test_attempts_on_protected_files_are_denied(team: Policy, project: Path, home: Path) -> None:
    for attempt in ATTEMPTS["protected files"]:
        tool, arguments = call(attempt, home)
        decision = decide(team, "dev", None, tool, arguments, str(project))
        assert (decision.outcome, decision.source) == ("deny", "built in"), (shown(attempt), decision)


def test_no_policy_overrides_the_denial_of_protected_files(team: Policy, project: Path, home: Path) -> None:
    everything = team.replace(rules=(team.rules[0].replace(roles=(), tools=team.roles["tl"].tools, decide="allow"),))
    for attempt in ATTEMPTS["protected files"]:
        tool, arguments = call(attempt, home)
        assert decide(everything, "tl", None, tool, arguments, str(project)).outcome == "deny", shown(attempt)


@pytest.mark.parametrize(("server", "tool", "arguments"), SERVER_ATTEMPTS, ids=shown)
def test_attempts_with_tools_of_servers_are_never_allowed(
    server: str, tool: str, arguments: dict[str, object], team: Policy, project: Path, home: Path
) -> None:
    raw = json.dumps(arguments).replace("{home}", str(home)).encode()
    assert decide(team, "dev", server, tool, raw, str(project)).outcome in ("ask", "deny")


@pytest.mark.parametrize("attempt", LEGITIMATE, ids=shown)
def test_legitimate_calls_are_allowed(attempt: object, team: Policy, project: Path, home: Path) -> None:
    tool, arguments = call(attempt, home)
    decision = decide(team, "dev", None, tool, arguments, str(project))
    assert decision.outcome == "allow", decision


@pytest.mark.parametrize(("server", "tool", "arguments"), LEGITIMATE_SERVER_CALLS, ids=shown)
def test_legitimate_calls_of_servers_are_allowed(
    server: str, tool: str, arguments: dict[str, object], team: Policy, project: Path
) -> None:
    decision = decide(team, "dev", server, tool, json.dumps(arguments).encode(), str(project))
    assert decision.outcome == "allow", decision


@pytest.mark.parametrize("workspace", [None, "", "relative", "/", "{home}"])
def test_without_a_workspace_no_path_and_no_remote_is_granted(
    workspace: str | None, team: Policy, project: Path, home: Path
) -> None:
    place = workspace.replace("{home}", str(home)) if workspace else workspace
    for tool, arguments in (
        ("Read", {"file_path": str(project / "README.md")}),
        ("Read", {"file_path": "README.md"}),
        ("Bash", {"command": "git push origin feature/x"}),
        ("Bash", {"command": "git add src"}),
    ):
        assert decide(team, "dev", None, tool, json.dumps(arguments).encode(), place).outcome == "ask"
