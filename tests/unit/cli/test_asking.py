"""Questions before a daemon with attached sessions is stopped."""

from typing import Any, cast

import pytest

from hearth.cli import asking
from hearth.control_client.connection import ControlConnection
from hearth.errors import Refused


class Told:
    """Somebody who has the status of a daemon with these sessions."""

    def __init__(self, *sessions: dict[str, Any]) -> None:
        self._sessions = sessions

    def status(self) -> dict[str, Any]:
        return {"sessions": list(self._sessions)}


IDLE = {"id": "h", "wire": "http", "active": False, "inFlight": 0}


def test_sessions_over_http_between_two_requests_are_not_asked_about() -> None:
    asking.ask_about_sessions(cast(ControlConnection, Told(IDLE, IDLE)), "stop", yes=False)


@pytest.mark.parametrize(
    "session", [IDLE | {"active": True}, IDLE | {"inFlight": 1}, {"id": "b", "wire": "frames", "active": False}]
)
def test_who_is_attached_is_asked_about_and_nobody_else_counts(
    session: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(Refused, match=r"^1 session attached"):
        asking.ask_about_sessions(cast(ControlConnection, Told(IDLE, session)), "stop", yes=False)
    assert len(capsys.readouterr().err.splitlines()) == 2
