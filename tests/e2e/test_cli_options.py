"""Options that every verb has: `--json` wherever something is printed, `-y` wherever there is `--yes`."""

import json
import os
from collections.abc import Iterator

import click
import pytest

from e2e.cli_home import Bridge, Home
from hearth.cli.main import cli

# Their output is MCP, or the daemon's log, not an answer for a person.
RUNNERS = {"hearth bridge", "hearth hook", "hearth serve"}


def commands(
    command: click.Command = cli, name: str = "hearth", parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Every command that does something by itself, with its context."""
    context = click.Context(command, parent=parent, info_name=name)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found
            yield from commands(found, below, context)
    else:
        yield context


def names(context: click.Context) -> dict[str, list[str]]:
    """The options of a command, by the first of their names."""
    found = [each for each in context.command.get_params(context) if isinstance(each, click.Option)]
    return {max(each.opts, key=len): [*each.opts, *each.secondary_opts] for each in found}


def test_every_verb_that_prints_has_json() -> None:
    assert {context.command_path for context in commands() if "--json" not in names(context)} == RUNNERS


def test_every_verb_with_yes_has_its_short_form() -> None:
    found = [context.command_path for context in commands() if "-y" not in names(context).get("--yes", ["-y"])]
    assert found == []


def test_every_verb_below_a_group_teaches_by_an_example() -> None:
    for context in commands():
        if context.parent and context.parent.parent:
            assert f"{context.command_path}" in (context.command.help or ""), context.command_path


def test_the_path_of_the_config_is_json(home: Home) -> None:
    assert home.json("config", "path", "--json")["exists"] is False
    path = home.write_config("")
    assert home.json("config", "path", "--json") == {"path": path, "exists": True}


def test_the_token_is_json(home: Home) -> None:
    first = home.json("token", "show", "--json")
    assert first["header"] == f"Authorization: Bearer {first['token']}"
    assert os.path.exists(first["path"])
    assert home.json("token", "rotate", "--json") == {"rotated": True, "path": first["path"]}
    assert home.run("token", "show").stdout.strip() != first["token"]


def test_secrets_are_json(home: Home) -> None:
    home.write_config('[mcpServers.a]\ncommand = "true"\nenv = { T = "${keyring:t}" }\n')
    stored = home.ok_with("s3cret\n", "secret", "set", "t", "--json")
    document = json.loads(stored)
    assert (document["name"], document["reference"], document["needRestart"]) == ("t", "${keyring:t}", [])
    assert "s3cret" not in stored
    assert home.json("secret", "remove", "t", "--json") == {"name": "t", "removed": True, "servers": ["a"]}


@pytest.mark.parametrize("verb", ["stop", "restart"])
def test_with_nothing_running_nothing_was_done(home: Home, verb: str) -> None:
    assert home.json(verb, "--json") == {{"stop": "stopped", "restart": "restarted"}[verb]: []}
    assert home.json("reload", "--json")["reloaded"] is False
    assert not os.path.exists(home.registry)


@pytest.mark.parametrize("verb", ["stop", "restart", "reload"])
def test_json_asks_nothing_when_sessions_are_attached(home: Home, bridge: Bridge, verb: str) -> None:
    assert "say --yes" in home.refuses(5, verb, "--json")
    pid = home.json("status", "--json")["pid"]
    done = home.json(verb, "-y", "--json")
    if verb == "reload":
        assert done["reloaded"] is True
    else:
        (entry,) = done[{"stop": "stopped", "restart": "restarted"}[verb]]
        assert (entry["pid"], entry["profile"]) == (pid, "mcp")


def test_one_server_is_restarted_and_said_so_in_json(home: Home, bridge: Bridge) -> None:
    (entry,) = home.json("restart", "demo", "--yes", "--json")["restarted"]
    assert entry["server"] == "demo"
    assert entry["message"]
