"""How often the service manager is told what is going on."""

import asyncio

import pytest

from hearth.daemon import upkeep
from hearth.daemon.upkeep import StatusLine
from hearth.host.linux.systemd import Notifier


class Listening(Notifier):
    """A notifier that notes what it would send."""

    def __init__(self) -> None:
        self.is_heard = True
        self.heard: list[str] = []

    def _send(self, message: str) -> None:
        self.heard.append(message)


async def test_what_changes_within_a_second_is_said_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "INTERVAL_SECONDS", 0.05)
    notifier, composed = Listening(), []
    count = 0

    def compose() -> str:
        composed.append(count)
        return f"{count} calls"

    line = StatusLine(notifier, compose)
    line.ready()
    for count in range(1, 1001):  # noqa: B007 - compose reads it
        line.news()
    while len(notifier.heard) < 2:
        await asyncio.sleep(0.01)
    # What is the same is not said again.
    line.say()
    line.close()
    line.news()
    line.say()
    assert notifier.heard == ["READY=1\nSTATUS=0 calls", "STATUS=1000 calls"]
    assert len(composed) == 3


async def test_where_nobody_listens_nothing_is_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    line = StatusLine(Notifier(), lambda: pytest.fail("nobody asked"))
    line.ready()
    line.news()
    line.say()


def test_a_line_stays_one() -> None:
    notifier = Listening()
    notifier.status("bad\nREADY=1")
    assert notifier.heard == ["STATUS=bad READY=1"]
