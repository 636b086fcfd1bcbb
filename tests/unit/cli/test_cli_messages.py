"""Errors to sentences and exit codes."""

import click
import pytest

from hearth.cli.messages import INTERRUPTED, report
from hearth.errors import AlreadyRunning, ConfigError, HearthError, Refused, Unreachable


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HearthError("it broke"), 1),
        (ConfigError(["it broke"]), 2),
        (AlreadyRunning("it broke"), 3),
        (Unreachable("it broke"), 4),
        (Refused("it broke"), 5),
        (click.UsageError("it broke"), 2),
    ],
)
def test_every_expected_error_becomes_a_sentence_on_stderr_and_its_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error) == code
    captured = capsys.readouterr()
    assert "it broke" in captured.err
    assert captured.out == ""


def test_each_problem_of_a_config_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    report(ConfigError(["first", "second"]))
    assert capsys.readouterr().err.splitlines() == ["hearth: first", "hearth: second"]


def test_an_interruption_has_the_code_that_shells_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(KeyboardInterrupt()) == INTERRUPTED
    assert "Traceback" not in capsys.readouterr().err


def test_what_nobody_expected_is_raised_again() -> None:
    with pytest.raises(ZeroDivisionError):
        report(ZeroDivisionError())
