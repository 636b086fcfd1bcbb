"""Causes that doctor recognises."""

import pytest

from hearth.doctor.daemon import find_cause, missing_variable
from hearth.upstreams.stdio import STRAY_MARK


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("its last words: KeyError: 'TOKEN'", "TOKEN"),
        ("Error: GITHUB_PERSONAL_ACCESS_TOKEN environment variable is required", "GITHUB_PERSONAL_ACCESS_TOKEN"),
        ("BRAVE_API_KEY is not set", "BRAVE_API_KEY"),
        ("Missing required environment variable: SLACK_BOT_TOKEN", "SLACK_BOT_TOKEN"),
        ("Please set `NOTION_TOKEN` | at main.js:3", "NOTION_TOKEN"),
        ("the variable NOT_SET is not set in the daemon's environment", "NOT_SET"),
        ("ended (exit code 1) before it answered; its last words: ERR_MODULE_NOT_FOUND", ""),
        ("connect ECONNREFUSED 127.0.0.1:80", ""),
        ("API_KEY was rejected", ""),
    ],
)
def test_a_missing_variable_is_named(error: str, name: str) -> None:
    assert missing_variable(error) == name
    kind = find_cause(error)
    assert (kind.check if kind else "") == ("servers.variable" if name else "")


def test_output_in_place_of_mcp_is_recognised() -> None:
    kind = find_cause(f"did not answer within 1 s; its last words: {STRAY_MARK}Listening")
    assert kind
    assert kind.check == "servers.stdout"
