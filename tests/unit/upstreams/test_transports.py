"""When a server that waits for a person's login is tried again."""

import asyncio
import os
from pathlib import Path

import pytest

from hearth.errors import LoginRequired
from hearth.mcp import versions
from hearth.places import oauth_file
from hearth.upstreams import transports
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Connection, Owner
from hearth.upstreams.supervision import READY
from hearth.upstreams.transports import AwaitedLogin
from unit.conversations import until
from unit.staged_servers import StagedServer

TENANT = ClientContext("1", versions.LEGACY)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(transports, "LOOK_SECONDS", 0.001)


def log_in() -> None:
    """Write what whoever logs in writes."""
    path = Path(oauth_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text("{}")
    os.replace(path.with_suffix(".new"), path)


class Guarded(StagedServer):
    """Wants a login; each attempt waits for `gate` after it was found that there is none."""

    def __init__(self, learned: Path) -> None:
        # Asked once: another era is not tried.
        super().__init__(learned, era=versions.LEGACY)
        self.attempts = 0
        self.gate = asyncio.Event()

    async def _connect(self, owner: Owner, tenant: ClientContext) -> Connection:
        self.attempts += 1
        is_logged_in = os.path.exists(oauth_file())
        await self.gate.wait()
        if not is_logged_in:
            raise LoginRequired("server 's' needs a login", "s")
        return await super()._connect(owner, tenant)


async def test_a_login_during_the_attempt_that_wanted_it_is_noticed_without_another_call(tmp_path: Path) -> None:
    server = Guarded(tmp_path / "learned.json")
    waiting = [asyncio.create_task(server.ensure(TENANT))]
    await until(lambda: server.attempts, "it is tried")
    log_in()
    # Who joins now has seen the login, which the attempt has not.
    waiting.append(asyncio.create_task(server.ensure(TENANT)))
    await asyncio.sleep(0)
    server.gate.set()
    for each in waiting:
        with pytest.raises(LoginRequired):
            await each
    await until(lambda: server.state == READY, "it is ready")
    await server.retire()


async def test_a_login_during_an_attempt_that_another_login_caused_is_noticed_after_it() -> None:
    begun: list[asyncio.Event] = []

    async def start(tenant: ClientContext) -> None:
        begun.append(asyncio.Event())
        await begun[-1].wait()
        login.needed(tenant, None)

    login = AwaitedLogin(start)
    login.needed(TENANT, transports.signature())
    log_in()
    await until(lambda: begun, "it is tried")
    log_in()
    # It is looked at several times while the attempt goes on.
    await asyncio.sleep(0.02)
    assert len(begun) == 1
    begun[0].set()
    await until(lambda: len(begun) == 2, "it is tried again")
    begun[1].set()
    # Nothing is new any more.
    await asyncio.sleep(0.02)
    assert len(begun) == 2
    login.over()


async def test_a_server_that_was_retired_during_its_attempt_waits_for_no_login(tmp_path: Path) -> None:
    server = Guarded(tmp_path / "learned.json")
    waiting = asyncio.create_task(server.ensure(TENANT))
    await until(lambda: server.attempts, "it is tried")
    server.mark_stale(5.0)
    server.gate.set()
    with pytest.raises(LoginRequired):
        await waiting
    assert not server.needs_login
    log_in()
    await asyncio.sleep(0.02)
    assert server.attempts == 1
