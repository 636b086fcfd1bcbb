"""The end of a process, what becomes of those who wait, and the end for good.

Conversations that are over: whoever waits for the next one hears of it, whatever goes wrong at the end.
"""

import asyncio

import pytest

from hearth.errors import HearthError, UpstreamError
from hearth.upstreams.connection import Owner
from hearth.upstreams.supervision import READY, RETIRED, STARTING, STOPPING
from hearth.upstreams.supervisor import Terminations, drain
from unit.conversations import Scripted, until
from unit.staged_instances import BROKEN, Nobody, Stage, Turn

# --- the end of a process


async def test_a_server_that_is_lost_takes_no_calls_and_the_next_start_waits_for_its_end() -> None:
    class Slow(Scripted):
        async def stop(self) -> None:
            await asyncio.sleep(0)
            order.append("the former has ended")
            await super().stop()

        async def open(self) -> None:
            order.append("opened")

    order: list[str] = []
    stage = Stage(kind=Slow)
    stage.instance.lost(await stage.ready())
    one = stage.instance
    assert (one.state, one.open, one.connection, one.restarts) == (STOPPING, False, None, 1)
    assert one.error == "it closed its input or output"
    one.subscriptions.hold("r:1", "somebody")
    await stage.ready()
    assert ["resources/subscribe" in each.methods() for each in stage.connections] == [False, True]
    assert order == ["opened", "the former has ended", "opened"]
    assert stage.audience.count("ended") == 1


async def test_the_end_of_a_process_is_told_once_and_its_reason_is_kept(stage: Stage) -> None:
    connection = await stage.ready()
    stage.instance.lost(connection)
    connection.end("it ended by itself (exit code 3)")
    assert stage.audience.told[1:] == [("ended", stage.instance)]
    assert (stage.instance.error, stage.instance.restarts) == ("it ended by itself (exit code 3)", 1)


async def test_the_last_words_of_a_server_that_ended_are_in_its_error() -> None:
    class Talkative(Scripted):
        last_words = ("out of memory",)

    stage = Stage(kind=Talkative)
    (await stage.ready()).end("it ended by itself (signal 9)")
    assert stage.instance.error == "it ended by itself (signal 9); its last words: out of memory"


async def test_what_a_former_connection_says_of_its_end_does_not_touch_its_successor(stage: Stage) -> None:
    former = await stage.ready()
    former.end("it ended")
    successor = await stage.ready()
    stage.instance.lost(former)
    stage.instance.closed(former, "again")
    assert (stage.instance.state, stage.instance.connection) == (READY, successor)
    assert stage.audience.count("ended") == 1


async def test_what_is_watched_is_watched_again_after_a_restart(stage: Stage) -> None:
    stage.instance.subscriptions.hold("r:1", "somebody")
    (await stage.ready()).end("it ended")
    await stage.ready()
    assert ["resources/subscribe" in connection.methods() for connection in stage.connections] == [True, True]


async def test_a_restarted_server_is_at_no_log_level_yet(stage: Stage) -> None:
    connection = await stage.ready()
    stage.instance.log_level = "debug"
    connection.end("it ended")
    await stage.ready()
    assert stage.instance.log_level is None


# --- turns


@pytest.mark.parametrize(("limit", "full"), [(None, False), (1, True), (2, False)])
async def test_an_instance_is_full_when_as_many_are_in_flight_as_may_be(limit: int | None, full: bool) -> None:
    stage = Stage(max_concurrency=limit)
    connection = await stage.ready()
    assert not stage.instance.queue.full
    connection.request(b'"tools/call"', b"{}", Nobody())
    assert stage.instance.queue.full is full


async def test_whoever_waits_is_sent_when_there_is_room_and_failed_when_there_never_will_be() -> None:
    stage = Stage(max_concurrency=1)
    connection = await stage.ready()
    number = connection.request(b'"tools/call"', b"{}", Nobody())
    told: list[str] = []
    stage.instance.queue.add(Turn(told))
    assert (told, stage.instance.queue.full) == ([], True)
    connection.give(number, {})
    assert told == ["sent"]
    connection.request(b'"tools/call"', b"{}", Nobody())
    stage.instance.queue.add(Turn(told))
    stage.script = BROKEN
    connection.end("it ended")
    await until(lambda: len(told) == 2, "it is told")
    assert "refused every way" in told[1]


# --- ending for good


async def test_a_retired_instance_ends_its_server_and_does_not_come_back() -> None:
    stage = Stage(max_concurrency=1)
    connection = await stage.ready()
    told: list[str] = []
    stage.instance.queue.add(Turn(told))
    await stage.instance.retire()
    assert connection.stopped
    assert (stage.instance.state, stage.instance.open, stage.instance.connection) == (RETIRED, False, None)
    assert told == ["server 's' ended before it took the call"]
    with pytest.raises(UpstreamError, match="no longer in the config"):
        await stage.instance.ensure()
    assert stage.audience.count("ended") == 0


@pytest.mark.parametrize("begun", [False, True])
async def test_who_waits_for_a_start_that_is_retired_is_told(begun: bool) -> None:
    stage = Stage({})
    starting = asyncio.create_task(stage.instance.ensure())
    await until(lambda: stage.connections if begun else stage.instance.state == STARTING, "it is being started")
    await stage.instance.retire()
    with pytest.raises(UpstreamError, match="was stopped while it was being started"):
        await starting
    assert [connection.stopped for connection in stage.connections] == [True] * begun


async def test_an_instance_that_is_retired_while_its_failed_start_is_being_ended_waits_for_that_end() -> None:
    class Stubborn(Scripted):
        """Ends when the test says so."""

        def __init__(self, owner: Owner | None, script: dict[str, object]) -> None:
            super().__init__(owner, script)
            self.told, self.may_end = asyncio.Event(), asyncio.Event()

        async def stop(self) -> None:
            self.told.set()
            await self.may_end.wait()
            await super().stop()

    stage = Stage(BROKEN, kind=Stubborn)
    starting = asyncio.create_task(stage.instance.ensure())
    await until(lambda: stage.connections, "it is being started")
    connection = stage.connections[0]
    assert isinstance(connection, Stubborn)
    await connection.told.wait()
    retiring = asyncio.create_task(stage.instance.retire())
    with pytest.raises(UpstreamError, match="was stopped while it was being started"):
        await starting
    assert not retiring.done()
    connection.may_end.set()
    await retiring
    assert connection.stopped


async def test_an_outdated_instance_finishes_its_calls_before_it_ends(stage: Stage) -> None:
    connection = await stage.ready()
    number = connection.request(b'"tools/call"', b"{}", Nobody())
    finishing = asyncio.create_task(drain(stage.instance, 60))
    await until(lambda: stage.instance.obsolete, "it takes no new calls")
    assert (stage.instance.open, connection.stopped) == (False, False)
    connection.give(number, {})
    await finishing
    assert connection.stopped


class _Failing(Nobody):
    """Keeps what it is told instead of an answer."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def failed(self, problem: HearthError) -> None:
        self.problems.append(str(problem))


async def test_an_outdated_instance_does_not_wait_for_its_calls_for_ever(stage: Stage) -> None:
    connection = await stage.ready()
    waiter = _Failing()
    connection.request(b'"tools/call"', b"{}", waiter)
    await drain(stage.instance, 0.01)
    assert connection.stopped
    assert waiter.problems == [
        "server 's' is ended, for another config or because somebody restarts it, and has not finished within"
        " 0.01 s (drain_timeout); the call may or may not have run"
    ]


async def test_an_instance_that_is_outdated_while_it_is_started_is_not_open(stage: Stage) -> None:
    starting = asyncio.create_task(stage.instance.ensure())
    await until(lambda: stage.instance.state == STARTING, "it is being started")
    stage.instance.mark_stale()
    await starting
    assert (stage.instance.state, stage.instance.open) == (READY, False)


async def test_a_process_is_shown_by_its_pid_where_there_is_one() -> None:
    class Process(Scripted):
        pid = 4711

    stage = Stage(kind=Process)
    assert stage.instance.pids == []
    await stage.ready()
    assert stage.instance.pids == [4711]
    other = Stage()
    await other.ready()
    assert other.instance.pids == []


class Ending:
    """Something that is stopped, and may fail at that."""

    name = "s"

    def __init__(self, problem: Exception | None = None) -> None:
        self._problem = problem

    async def stop(self) -> None:
        await asyncio.sleep(0)
        if self._problem:
            raise self._problem


@pytest.mark.parametrize("problem", [None, RuntimeError("not foreseen"), OSError(5, "the disk is broken")])
async def test_the_next_one_may_begin_when_nothing_is_left_or_the_end_itself_has_failed(
    problem: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    gone = asyncio.Event()
    endings = Terminations(gone.set)
    ending = Ending(problem)
    endings.detach(ending, by_itself=False)  # type: ignore[arg-type]
    assert not gone.is_set()
    endings.expedite(ending)  # type: ignore[arg-type]
    await asyncio.wait_for(gone.wait(), 5)
    assert endings.current is None
    assert ("unhandled exception" in caplog.text) == (problem is not None)
