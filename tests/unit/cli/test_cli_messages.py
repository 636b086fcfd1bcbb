"""Errors to sentences and exit codes; questions before a daemon with attached sessions is stopped."""

from typing import Any, cast

import click
import pytest

from hearth.cli.messages import INTERRUPTED, ask_about_sessions, report
from hearth.control_client.connection import ControlConnection
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


class Told:
    """Somebody who has the status of a daemon with these sessions."""

    def __init__(self, *sessions: dict[str, Any]) -> None:
        self._sessions = sessions

    def status(self) -> dict[str, Any]:
        return {"sessions": list(self._sessions)}


IDLE = {"id": "h", "wire": "http", "active": False, "inFlight": 0}


def test_sessions_over_http_between_two_requests_are_not_asked_about() -> None:
    ask_about_sessions(cast(ControlConnection, Told(IDLE, IDLE)), "stop", yes=False)


@pytest.mark.parametrize(
    "session", [IDLE | {"active": True}, IDLE | {"inFlight": 1}, {"id": "b", "wire": "frames", "active": False}]
)
def test_who_is_attached_is_asked_about_and_nobody_else_counts(
    session: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(Refused, match=r"^1 session attached"):
        ask_about_sessions(cast(ControlConnection, Told(IDLE, session)), "stop", yes=False)
    assert len(capsys.readouterr().err.splitlines()) == 2
