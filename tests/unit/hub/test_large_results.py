"""The store of large results."""

import pytest

from hearth.hub import large_results
from hearth.hub.large_results import LIFETIME_SECONDS, URI_PREFIX, LargeResults
from hearth.mcp.result_previews import TEXT, Part


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
