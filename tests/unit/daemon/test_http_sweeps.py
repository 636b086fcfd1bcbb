"""What HTTP does from time to time, whatever went wrong the last time."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hearth.config import Config
from hearth.daemon.daemon import Daemon
from hearth.daemon.http import app
from hearth.daemon.http.sessions import HttpSessions


async def test_a_sweep_that_fails_is_followed_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    swept, problems = [], []
    again = asyncio.Event()

    def sweep(sessions: HttpSessions) -> None:
        swept.append(sessions)
        if len(swept) == 2:
            raise OSError("no space left")
        if len(swept) == 3:
            again.set()

    def problem(_: asyncio.AbstractEventLoop, found: dict[str, Any]) -> None:
        problems.append(found["exception"])

    loop.set_exception_handler(problem)
    monkeypatch.setattr(HttpSessions, "sweep", sweep)
    monkeypatch.setattr(app, "SWEEP_SECONDS", 0.001)
    services = SimpleNamespace(hub=None, now=loop.time, kept_sessions=str(tmp_path), config=Config())
    app.HttpApp(cast(Daemon, services))
    async with asyncio.timeout(10):
        await again.wait()
    assert [str(each) for each in problems] == ["no space left"]
