"""Which daemon the options mean."""

import click
import pytest

from hearth.cli.target import choose


def test_without_options_it_is_the_default_profile() -> None:
    assert choose(None, None, {}).key == "mcp"


def test_a_config_may_come_from_the_environment() -> None:
    assert choose(None, None, {"HEARTH_CONFIG": "/tmp/a.toml"}).config == "/tmp/a.toml"


def test_what_was_typed_wins_over_the_environment() -> None:
    assert choose("work", None, {"HEARTH_CONFIG": "/tmp/a.toml"}).config is None
    assert choose(None, "/tmp/b.toml", {"HEARTH_CONFIG": "/tmp/a.toml"}).config == "/tmp/b.toml"


def test_a_profile_and_a_config_at_once_are_refused() -> None:
    with pytest.raises(click.UsageError, match="two daemons"):
        choose("work", "/tmp/a.toml", {})


def test_a_profile_name_that_would_leave_the_folder_is_refused() -> None:
    with pytest.raises(click.UsageError, match="not a profile name"):
        choose("../other", None, {})
