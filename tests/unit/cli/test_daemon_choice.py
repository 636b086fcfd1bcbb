"""Which daemon the options mean, and what is no number."""

import click
import pytest

from hearth.cli.daemon_choice import Number, WholeNumber, choose

ENVIRONMENT = {"HEARTH_CONFIG": "/tmp/a.toml"}


def test_without_options_it_is_the_default_profile() -> None:
    assert choose(None, None, {}).key == "mcp"


@pytest.mark.parametrize(
    ("profile", "config", "meant"),
    [(None, None, "/tmp/a.toml"), ("work", None, None), (None, "/tmp/b.toml", "/tmp/b.toml")],
)
def test_a_config_may_come_from_the_environment_and_what_was_typed_wins(
    profile: str | None, config: str | None, meant: str | None
) -> None:
    assert choose(profile, config, ENVIRONMENT).config == meant


@pytest.mark.parametrize(
    ("profile", "config", "reason"), [("work", "/tmp/a.toml", "two daemons"), ("../other", None, "not a profile name")]
)
def test_two_daemons_at_once_and_a_name_that_would_leave_the_folder_are_refused(
    profile: str, config: str | None, reason: str
) -> None:
    with pytest.raises(click.UsageError, match=reason):
        choose(profile, config, {})


@pytest.mark.parametrize(("kind", "name"), [(Number(0), "number"), (WholeNumber(0, 65535), "whole number")])
def test_what_is_no_number_is_not_called_a_range(kind: click.ParamType, name: str) -> None:
    with pytest.raises(click.BadParameter, match=f"'abc' is not a valid {name}"):
        kind.convert("abc", None, None)
    with pytest.raises(click.BadParameter, match=r"-1(\.0)? is not in the range"):
        kind.convert("-1", None, None)
    assert kind.convert("8", None, None) == 8
