"""Every path of a start ends in an event of the supervision table, wherever the server exits or the code fails."""

import asyncio
import logging
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from hearth.errors import UpstreamError
from hearth.mcp import versions
from hearth.upstreams.connection import Owner
from hearth.upstreams.instance import Instance
from hearth.upstreams.supervision import FAILED, READY, STARTING
from hearth.wire.values import RawBytes
from unit.conversations import Scripted, dual_script, legacy_script, modern_script, until
from unit.staged_instances import CHANGED, Stage

Hook = Callable[[int], None]
# More awaits than any start has: the search for the last one ends long before.
AWAITS_LIMIT = 100


@types.coroutine
def _stepped(inner: Coroutine[Any, Any, None], resume: Hook) -> Generator[Any, Any, None]:
    """Run a coroutine; call `resume` with the number of each await, after its result is known and before it goes on."""
    number = 0
    problem: BaseException | None = None
    while True:
        try:
            waited = inner.throw(problem) if problem else inner.send(None)
        except StopIteration:
            return
        problem = None
        try:
            yield waited
            resume(number)
        except BaseException as exc:
            problem = exc
        number += 1


class Fault:
    """Something that happens once, at one await of the first start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stage: Stage, at: int, happen: Callable[[Stage], None]) -> None:
        self.stage = stage
        self.at = at
        self.has_happened = False
        self._happen = happen
        original = Instance._start

        async def start(instance: Instance) -> None:
            await _stepped(original(instance), self._resume)

        monkeypatch.setattr(Instance, "_start", start)

    def _resume(self, number: int) -> None:
        if number == self.at and not self.has_happened:
            self.has_happened = True
            self._happen(self.stage)


def _exit(stage: Stage) -> None:
    """Tell all that a process which exits tells: first that it is lost, then that it is closed."""
    for connection in stage.connections[-1:]:
        stage.instance.lost(connection)
        connection.end("it ended by itself (exit code 1)")


def _lose(stage: Stage) -> None:
    """Tell only that the pipes have ended: the exit is noticed later."""
    for connection in stage.connections[-1:]:
        connection.broken = True
        stage.instance.lost(connection)


def _raise(stage: Stage) -> None:
    raise RuntimeError("an exception that no code expects")


def _cancel(stage: Stage) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("happen", [_exit, _lose, _raise, _cancel])
@pytest.mark.parametrize("script", [legacy_script, modern_script, dual_script])
async def test_a_fault_at_any_await_of_a_start_ends_it(
    monkeypatch: pytest.MonkeyPatch, script: Callable[[], dict[str, object]], happen: Callable[[Stage], None]
) -> None:
    async def faulty_start(at: int) -> bool:
        with monkeypatch.context() as patched:
            stage = Stage(script())
            fault = Fault(patched, stage, at, happen)
            try:
                await stage.instance.ensure()
            except UpstreamError:
                assert stage.instance.state == FAILED
            else:
                assert stage.instance.state == READY
                # Alive, and the only one that is.
                assert stage.instance.connection is stage.connections[-1]
            for former in stage.connections if stage.instance.state == FAILED else stage.connections[:-1]:
                assert former.stopped or happen is _exit, "nothing is left of it"
            await stage.ready()
            return fault.has_happened

    awaits = 0
    while await faulty_start(awaits):
        awaits += 1
        assert awaits < AWAITS_LIMIT
    assert awaits >= 2, "the start has awaits"


@pytest.mark.parametrize(
    ("script", "last"),
    [
        (legacy_script, "initialize"),
        (legacy_script, "tools/list"),
        (modern_script, "server/discover"),
        (modern_script, "tools/list"),
    ],
)
async def test_a_server_that_exits_behind_an_answer_of_its_start_has_failed(
    script: Callable[[], dict[str, object]], last: str
) -> None:
    """The answer and the exit come in one turn of the loop, in both attempts of the start."""

    class Leaving(Scripted):
        def _reply(self, number: int, reply: object) -> None:
            super()._reply(number, reply)
            if self.sent[number - 1]["method"] == last:
                self.end("it ended by itself (exit code 0)")

    stage = Stage(script(), kind=Leaving)
    with pytest.raises(UpstreamError, match="could not be started"):
        await stage.instance.ensure()
    assert stage.instance.state == FAILED


class KilledOnce(Stage):
    """An instance whose first process is killed when it gets its first message."""

    def __init__(self, script: dict[str, object]) -> None:
        super().__init__(script, kind=self._first_or_later)

    def _first_or_later(self, owner: Owner, script: dict[str, object]) -> Scripted:
        return Scripted(owner, script) if self.connections else Killed(owner, script)


class Killed(Scripted):
    def _send(self, number: int, method: bytes, params: RawBytes) -> None:
        if number == 1:
            asyncio.get_running_loop().call_soon(self.end, "it ended by itself (signal 9)")


@pytest.mark.parametrize(("is_known", "era"), [(True, versions.MODERN), (False, versions.LEGACY)])
async def test_a_server_of_both_eras_that_is_killed_once_while_it_opens_keeps_the_era_that_it_is_known_for(
    is_known: bool, era: str
) -> None:
    stage = KilledOnce(dual_script())
    stage.instance.is_known = is_known
    await stage.ready()
    # Nothing is learned about the era that it was not asked for.
    assert (stage.instance.wanted, stage.instance.era, stage.instance.asked_era) == (versions.MODERN, era, era)


async def test_a_modern_server_that_is_killed_once_while_it_opens_is_opened_again_as_modern() -> None:
    for refusal in (-32022, -32601, -32600):
        stage = KilledOnce(modern_script(initialize=refusal))
        await stage.ready()
        assert stage.instance.era == versions.MODERN
        assert stage.instance.catalog
        assert stage.instance.catalog.capabilities, "discover has told what it offers"
        assert stage.connections[1].methods()[:2] == ["initialize", "server/discover"]


async def test_a_failure_of_the_code_that_reads_lists_again_is_a_failure_of_the_instance(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await stage.ready()

    async def defect(*_: object) -> None:
        raise RuntimeError("an exception that no code expects")

    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr("hearth.upstreams.handshake.read_lists", defect)
        connection.say(CHANGED)
        await until(lambda: connection.stopped, "its process is ended")
    assert "an exception that no code expects" in (stage.instance.error or "")
    assert any(record.exc_info for record in caplog.records)
    assert stage.instance.state not in (READY, STARTING)
    assert await stage.ready() is not connection
