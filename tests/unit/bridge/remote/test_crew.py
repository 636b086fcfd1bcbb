"""Threads, gates and lanes."""

from threading import Event, Lock, get_ident

import pytest

from hearth.bridge.remote import crew as crews
from hearth.bridge.remote.crew import WORKERS_LIMIT, Crew, Gate, Lane

BOUND_SECONDS = 20


def rest(crew: Crew) -> None:
    while not crew.is_idle():
        crew.rest(BOUND_SECONDS)


def test_a_gate_opens_once_and_for_all() -> None:
    gate = Gate()
    assert not gate.wait(0.01)
    gate.open()
    gate.open()
    assert gate.wait() and gate.wait()
    assert Gate(is_open=True).wait()


def test_so_many_work_at_once_and_the_others_after_them() -> None:
    crew, lock, held = Crew(), Lock(), Event()
    busy: list[int] = []

    def work(number: int) -> None:
        with lock:
            busy.append(number)
        held.wait(BOUND_SECONDS)

    for number in range(WORKERS_LIMIT + 10):
        crew.start(lambda number=number: work(number), 1)  # type: ignore[misc]
    # Past them all, whoever waits.
    urgent = Event()
    crew.start_now(urgent.set)
    assert urgent.wait(BOUND_SECONDS)
    assert crew.waiting_bytes == 10 and WORKERS_LIMIT not in busy
    held.set()
    rest(crew)
    assert sorted(busy) == list(range(WORKERS_LIMIT + 10))


def test_what_waits_for_its_turn_is_counted_in_bytes() -> None:
    crew, held = Crew(), Event()
    for _ in range(WORKERS_LIMIT):
        crew.start(lambda: bool(held.wait(BOUND_SECONDS)) and None)
    crew.start(lambda: None, 100)
    assert (crew.waiting_bytes, crew.is_idle()) == (100, False)
    held.set()
    rest(crew)
    assert crew.waiting_bytes == 0


def test_a_lane_keeps_the_order_and_survives_what_fails() -> None:
    crew = Crew()
    lane = Lane(crew)
    seen: list[int] = []

    def work(number: int) -> None:
        seen.append(number)
        if number % 3 == 0:
            raise ValueError("x")

    for number in range(100):
        lane.put(lambda number=number: work(number), 1)  # type: ignore[misc]
    rest(crew)
    assert seen == list(range(100))


def test_without_a_thread_to_be_had_work_is_done_by_who_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(crews, "start_new_thread", start)
    crew, seen = Crew(), []
    for begin in (crew.start, crew.start_now):
        begin(lambda: seen.append(get_ident()))
        assert crew.is_idle()
    Lane(crew).put(lambda: seen.append(get_ident()), 1)
    assert crew.is_idle()
    assert seen == [get_ident()] * 3
    # What may go on for ever cannot be done here.
    with pytest.raises(RuntimeError):
        crew.start_apart(lambda: seen.append(0))
