"""`hearth connect --hooks`, and every way back: disconnect, uninstall, of one profile or of all."""

import json
import os

import pytest

from e2e.cli_home import Home, read, write

SETTINGS = {
    "claude-code": (".claude/settings.json", '{\n  "model": "opus",\n  "hooks": {\n    "Stop": []\n  }\n}\n'),
    "codex": (".codex/hooks.json", None),
    "gemini": (".gemini/settings.json", '{ "ui": {} } // mine\n'),
}


@pytest.fixture(params=SETTINGS)
def client(request: pytest.FixtureRequest, home: Home) -> str:
    """A client with settings of its own."""
    path, text = SETTINGS[request.param]
    os.makedirs(os.path.dirname(os.path.join(home.home, path)))
    if text is not None:
        write(os.path.join(home.home, path), text)
    found: str = request.param
    return found


def settings(home: Home, client: str) -> str | None:
    path = os.path.join(home.home, SETTINGS[client][0])
    return read(path) if os.path.exists(path) else None


@pytest.mark.quick
def test_the_change_is_shown_done_and_undone(home: Home, client: str) -> None:
    before = settings(home, client)
    shown = home.ok("connect", client, "--hooks", "--dry-run")
    assert f"--client {client.removesuffix('-code')}" in shown and settings(home, client) == before
    said = home.ok("connect", client, "--hooks", "--yes")
    assert "hook" in str(settings(home, client)) and f"hearth disconnect {client}" in said
    assert "Nothing had to be changed." in home.ok("connect", client, "--hooks", "--yes")
    home.ok("disconnect", client)
    assert settings(home, client) == before


@pytest.mark.parametrize("words", [("uninstall",), ("disconnect", "--all")])
def test_nothing_of_the_hooks_stays_after_an_uninstallation(home: Home, client: str, words: tuple[str, ...]) -> None:
    before = settings(home, client)
    home.ok("connect", client, "--hooks", "--yes")
    home.ok(*words)
    assert settings(home, client) == before


def test_the_hooks_of_a_profile_go_with_that_profile(home: Home, client: str) -> None:
    before = settings(home, client)
    home.ok("connect", client, "--hooks", "--yes", "--profile", "work")
    assert "--profile work" in str(settings(home, client))
    home.ok("uninstall", "--profile", "play")
    assert settings(home, client) != before
    home.ok("uninstall", "--profile", "work")
    assert settings(home, client) == before


def test_hooks_of_a_package_are_found_by_its_folder(home: Home, client: str) -> None:
    """A package's removal takes the hooks out that start its own program."""
    before = settings(home, client)
    home.ok("connect", client, "--hooks", "--yes")
    home.ok("disconnect", "--all", "--below", "/usr/lib/mcp-hearth")
    assert settings(home, client) != before
    home.ok("disconnect", "--all", "--below", os.path.join(home.home, ".local"))
    assert settings(home, client) == before


def test_a_role_token_is_named_by_its_file(home: Home, client: str) -> None:
    write(os.path.join(home.home, "dev.token"), "t0ken")
    home.ok("connect", client, "--hooks", "--yes", "--token-file", os.path.join(home.home, "dev.token"))
    text = str(settings(home, client))
    assert f"--token-file {home.home}/dev.token" in text and "t0ken" not in text


def test_a_client_without_hooks_is_named_with_those_that_have_them(home: Home) -> None:
    assert "claude-code, codex, gemini" in home.refuses(2, "connect", "cursor", "--hooks")
    assert "goes with" in home.refuses(2, "connect", "codex", "--token-file", "x")


def test_the_time_limit_follows_the_policy(home: Home, client: str) -> None:
    write(os.path.join(home.home, ".config", "hearth", "policy.toml"), "hook_wait = 100\n")
    home.ok("connect", client, "--hooks", "--yes")
    text = str(settings(home, client))
    assert "--wait 105" in text and ("110000" if client == "gemini" else '"timeout": 110') in text


def test_programs_are_told_of_hooks_as_of_entries(home: Home, client: str) -> None:
    document = home.json("connect", client, "--hooks", "--yes", "--json")
    (found,) = [each for each in document["clients"] if each["keys"] == ["hooks"]]
    assert found["action"] == "connected" and found["path"].endswith(SETTINGS[client][0])
    assert json.loads(json.dumps(found["entries"]))
