"""The store of large results.

The limit on tool results, on a whole hub with servers of the test's.
"""

from pathlib import Path
from typing import Any

import pytest

from hearth.hub import large_results
from hearth.hub.large_results import LIFETIME_SECONDS, URI_PREFIX, LargeResults, ResultLimit
from hearth.hub.sessions import Session
from hearth.mcp.result_previews import TEXT, Part
from unit.conversations import until
from unit.hub.outlets import Kept
from unit.hub.whole_hub import PLENTY, Stage, answer


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def parts(size: int = 10) -> tuple[Part, ...]:
    return (Part(TEXT, b"x" * size),)


def kept(store: LargeResults, owner: object, size: int = 10) -> str:
    uri = store.keep(owner, parts(size))
    assert uri is not None
    return uri


def test_a_result_is_read_by_its_session_only_and_as_often_as_it_likes() -> None:
    store, owner = LargeResults(Clock()), object()
    uri = kept(store, owner)
    assert store.read(owner, uri) == store.read(owner, uri) == parts()
    assert store.read(object(), uri) is None
    assert store.read(owner, URI_PREFIX + "0" * 32) is None


def test_ids_are_unguessable() -> None:
    store = LargeResults(Clock())
    first, second = kept(store, 1), kept(store, 1)
    assert first != second
    assert all(len(uri.removeprefix(URI_PREFIX)) == 32 for uri in (first, second))


def test_a_result_expires() -> None:
    clock = Clock()
    store = LargeResults(clock)
    first = kept(store, 1)
    clock.now += LIFETIME_SECONDS / 2
    second = kept(store, 1)
    assert store.expire() == LIFETIME_SECONDS / 2
    clock.now += LIFETIME_SECONDS / 2
    assert store.read(1, first) is None
    assert store.read(1, second) == parts()
    assert len(store) == 1
    clock.now += LIFETIME_SECONDS / 2
    assert store.expire() is None
    assert len(store) == 0


def test_reading_gives_no_more_time() -> None:
    clock = Clock()
    store = LargeResults(clock)
    uri = kept(store, 1)
    clock.now += LIFETIME_SECONDS - 1
    assert store.read(1, uri)
    clock.now += 1
    assert store.read(1, uri) is None


def test_results_are_freed_with_their_session() -> None:
    store = LargeResults(Clock())
    first, other = kept(store, 1), kept(store, 2)
    store.release(1)
    assert store.read(1, first) is None
    assert store.read(2, other) == parts()
    assert len(store) == 1


def test_the_oldest_of_a_session_make_room_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_results, "SESSION_BYTES", 100)
    store = LargeResults(Clock())
    other = kept(store, 2, 100)
    uris = [kept(store, 1, 40) for _ in range(3)]
    assert [store.read(1, uri) is not None for uri in uris] == [False, True, True]
    whole = kept(store, 1, 100)
    assert [store.read(1, uri) is not None for uri in (*uris, whole)] == [False, False, False, True]
    assert store.read(2, other)


def test_the_oldest_of_a_session_make_room_by_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_results, "SESSION_COUNT", 2)
    store = LargeResults(Clock())
    other = kept(store, 2)
    uris = [kept(store, 1) for _ in range(3)]
    assert [store.read(1, uri) is not None for uri in uris] == [False, True, True]
    assert store.read(2, other)


def test_the_oldest_of_all_make_room_over_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_results, "TOTAL_BYTES", 100)
    store = LargeResults(Clock())
    uris = [kept(store, owner, 40) for owner in range(3)]
    assert [store.read(owner, uri) is not None for owner, uri in enumerate(uris)] == [False, True, True]


def test_a_result_beyond_all_bounds_is_not_kept_and_takes_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_results, "SESSION_BYTES", 100)
    store = LargeResults(Clock())
    uri = kept(store, 1, 100)
    assert store.keep(1, parts(101)) is None
    assert store.read(1, uri)


LIMIT = 4096
LONG = "x" * 9000


class Limited(Stage):
    """A hub with one server that has a limit, and a clock that goes when it is told to."""

    def __init__(self, folder: Path, lifetime: float = 900.0) -> None:
        super().__init__(folder, a=PLENTY)
        self.servers["a"].spec = self.servers["a"].spec.replace(result_limit=LIMIT)
        self.now = 0.0
        self.hub._pipeline.results = ResultLimit(LargeResults(lambda: self.now, lifetime))

    async def called(self, member: Session, sink: Kept, text: str = LONG, count: int = 1) -> dict[str, Any]:
        self.ask(member, "tools/call", name="a__t")
        request = await self.on("a", "tools/call", count)
        self.connection("a").give(request["id"], {"content": [{"type": "text", "text": text}]})
        found: dict[str, Any] = sink.messages("answer")[-1]["result"]
        return found


async def test_an_expired_result_is_an_error_that_says_so(tmp_path: Path) -> None:
    stage = Limited(tmp_path)
    member, sink = stage.client()
    uri = (await stage.called(member, sink))["content"][1]["uri"]
    stage.ask(member, "resources/read", 2, uri=uri)
    assert (await answer(sink, 2))["result"]["contents"][0]["text"] == LONG
    stage.now += 900
    stage.ask(member, "resources/read", 3, uri=uri)
    error = (await answer(sink, 3))["error"]
    assert error["code"] == -32002
    assert "expired" in error["message"]


async def test_a_kept_result_holds_the_daemon_until_its_session_ends(tmp_path: Path) -> None:
    stage = Limited(tmp_path)
    member, sink = stage.client()
    await stage.called(member, sink)
    stage.hub.sessions.fell_silent(member)
    assert stage.hub.busy()
    stage.hub.close_session(member)
    assert not stage.hub.busy()


async def test_a_timer_frees_what_has_expired(tmp_path: Path) -> None:
    stage = Limited(tmp_path, lifetime=0.01)
    member, sink = stage.client()
    await stage.called(member, sink)
    assert stage.hub._pipeline.results
    stage.now += 1
    await until(lambda: not stage.hub._pipeline.results, "the result is freed")
    # The next one has a timer, too.
    await stage.called(member, sink, count=2)
    stage.now += 1
    await until(lambda: not stage.hub._pipeline.results, "the next result is freed")


async def test_a_result_that_cannot_be_kept_is_passed_on_whole(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(large_results, "SESSION_BYTES", 100)
    stage = Limited(tmp_path)
    member, sink = stage.client()
    assert (await stage.called(member, sink))["content"] == [{"type": "text", "text": LONG}]


async def test_nothing_is_kept_for_a_call_that_was_cancelled(tmp_path: Path) -> None:
    stage = Limited(tmp_path)
    member, sink = stage.client()
    stage.ask(member, "tools/call", name="a__t")
    request = await stage.on("a", "tools/call")
    [call] = member.open.values()
    stage.tell(member, "notifications/cancelled", requestId=1)
    result = {"content": [{"type": "text", "text": LONG}]}
    stage.connection("a").give(request["id"], result)
    assert bytes(stage.hub._pipeline.results.shorten(call, b"{}")) == b"{}"
    assert not stage.hub._pipeline.results
    assert sink.messages("answer") == []


async def test_a_result_of_another_hearth_is_read_there(tmp_path: Path) -> None:
    stage = Limited(tmp_path)
    member, sink = stage.client()
    await stage.called(member, sink, "short")
    uri = "hearth-result:///abc"
    member.mention(uri, "a")
    stage.ask(member, "resources/read", 2, uri=uri)
    assert (await stage.on("a", "resources/read"))["params"]["uri"] == uri


async def test_without_a_limit_no_result_is_looked_at(tmp_path: Path) -> None:
    stage = Limited(tmp_path)
    stage.servers["a"].spec = stage.servers["a"].spec.replace(result_limit=0)
    looked: list[object] = []
    stage.hub._pipeline.results.shorten = lambda call, result: looked.append(result) or result  # type: ignore[method-assign,func-returns-value]
    member, sink = stage.client()
    assert (await stage.called(member, sink))["content"] == [{"type": "text", "text": LONG}]
    stage.servers["a"].spec = stage.servers["a"].spec.replace(result_limit=LIMIT)
    await stage.called(member, sink, "short", 2)
    assert looked == []
    await stage.called(member, sink, LONG, 3)
    assert len(looked) == 1
