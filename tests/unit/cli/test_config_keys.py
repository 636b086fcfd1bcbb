"""Names of values in the config, as typed."""

import click
import pytest

from hearth.cli import config
from hearth.cli.config import KeyName

SERVERS = ["a", "a.b", "time"]


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("idle_timeout", KeyName(setting="idle_timeout"), ("idle_timeout",)),
        ("owner.approve", KeyName(setting="owner.approve"), ("owner", "approve")),
        ("mcpServers.time", KeyName(server="time"), ("mcpServers", "time")),
        ("mcpServers.time.pin", KeyName(server="time", key="pin"), ("mcpServers", "time", "pin")),
        ("mcpServers.a.b", KeyName(server="a.b"), ("mcpServers", "a.b")),
        ("mcpServers.a.b.env", KeyName(server="a.b", key="env"), ("mcpServers", "a.b", "env")),
        ("mcpServers.a.env", KeyName(server="a", key="env"), ("mcpServers", "a", "env")),
    ],
)
def test_a_name_leads_to_its_place(text: str, name: KeyName, path: tuple[str, ...]) -> None:
    found = config.parse_key(text, SERVERS)
    assert (found, found.path) == (name, path)


@pytest.mark.parametrize("text", ["", "time", "mcpServers", "mcpServers.x", "mcpServers.a.nothing", "owner"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError):
        config.parse_key(text, SERVERS)


@pytest.mark.parametrize(
    ("text", "typed", "value"),
    [
        ("idle_timeout", "1.5", 1.5),
        ("http_hosts", "a.example, b.example", ["a.example", "b.example"]),
        ("mcpServers.time.pin", "true", True),
        ("mcpServers.time.args", '["x"]', ["x"]),
        ("mcpServers.time.command", "5", "5"),
    ],
)
def test_a_value_is_what_its_key_takes(text: str, typed: str, value: object) -> None:
    assert config.parse_value(config.parse_key(text, SERVERS), typed) == value


def test_every_name_that_is_completed_is_one() -> None:
    assert all(config.parse_key(name, ["time"]) for name in config.key_names(["time"]))
