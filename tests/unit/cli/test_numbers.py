"""What is no number is told so."""

import click
import pytest

from hearth.cli.target import Number, WholeNumber


@pytest.mark.parametrize(("kind", "name"), [(Number(0), "number"), (WholeNumber(0, 65535), "whole number")])
def test_what_is_no_number_is_not_called_a_range(kind: click.ParamType, name: str) -> None:
    with pytest.raises(click.BadParameter, match=f"'abc' is not a valid {name}"):
        kind.convert("abc", None, None)
    with pytest.raises(click.BadParameter, match=r"-1(\.0)? is not in the range"):
        kind.convert("-1", None, None)
    assert kind.convert("8", None, None) == 8
