"""When a changed config file is read: once it has been left alone. The clock is the test's."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hearth.daemon.config_file import SETTLED_SECONDS, VANISHED_SECONDS, ConfigFile
from hearth.daemon.main import signature


class Timer:
    def __init__(self, when: float, act: Callable[[], None]) -> None:
        self.when = when
        self.act = act
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """In the place of the loop: time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + seconds, act))
        return self.timers[-1]

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [timer for timer in self.timers if not timer.cancelled and timer.when <= end]:
            first = min(due, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.now = first.when
            first.act()
        self.now = end


class Stage:
    """A file, and how often the daemon was told to read it."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.clock = clock
        self.file = ConfigFile(str(path), signature(str(path)), self._read)
        self.readings: list[str | None] = []

    def _read(self) -> None:
        self.file.about_to_be_read()
        self.readings.append(self.path.read_text() if self.path.exists() else None)

    def write(self, text: str) -> None:
        self.path.write_text(text)
        # Within one tick of the kernel's clock two states may look alike.
        stamp = time.time_ns() + len(text) * 1_000_000
        os.utime(self.path, ns=(stamp, stamp))

    def change(self, text: str) -> None:
        """Write the file, and have it looked at."""
        self.write(text)
        self.file.look()

    def read_after(self, seconds: float) -> list[str | None]:
        """Let time pass; every reading until then."""
        self.clock.pass_time(seconds)
        return self.readings


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    path = tmp_path / "config.toml"
    path.write_text("first")
    yield Stage(path, clock)


def test_a_file_that_is_as_it_was_is_not_read(stage: Stage) -> None:
    stage.file.look()
    assert stage.read_after(100) == []


def test_a_changed_file_is_read_once_when_it_has_been_left_alone(stage: Stage) -> None:
    stage.change("second")
    assert stage.read_after(SETTLED_SECONDS * 0.9) == []
    assert stage.read_after(SETTLED_SECONDS) == ["second"]
    assert stage.read_after(100) == ["second"]


def test_one_that_is_being_written_is_waited_for(stage: Stage) -> None:
    for text in ("", "s", "se", "sec"):
        stage.change(text)
        stage.clock.pass_time(SETTLED_SECONDS * 0.9)
    assert stage.readings == []
    assert stage.read_after(SETTLED_SECONDS) == ["sec"]


def test_a_change_that_nobody_told_of_while_it_was_waited_for_begins_the_wait_anew(stage: Stage) -> None:
    stage.change("second")
    stage.clock.pass_time(SETTLED_SECONDS * 0.9)
    stage.write("third, untold")
    assert stage.read_after(SETTLED_SECONDS * 0.9) == []
    assert stage.read_after(SETTLED_SECONDS) == ["third, untold"]


def test_looking_again_at_what_is_waited_for_does_not_put_it_off(stage: Stage) -> None:
    stage.write("second")
    for _ in range(4):
        stage.file.look()
        stage.clock.pass_time(SETTLED_SECONDS / 3)
    assert stage.readings == ["second"]


def test_a_file_that_is_removed_and_made_anew_is_never_taken_for_gone(stage: Stage) -> None:
    stage.path.unlink()
    stage.file.look()
    stage.clock.pass_time(VANISHED_SECONDS * 0.9)
    stage.change("second")
    assert stage.read_after(VANISHED_SECONDS) == ["second"]


def test_a_file_that_stays_away_is_gone(stage: Stage) -> None:
    stage.path.unlink()
    stage.file.look()
    assert stage.read_after(VANISHED_SECONDS) == [None]
    stage.change("back")
    assert stage.read_after(SETTLED_SECONDS) == [None, "back"]


def test_one_that_is_read_for_another_reason_is_not_read_once_more(stage: Stage) -> None:
    stage.change("second")
    stage.file.about_to_be_read()
    assert stage.read_after(100) == []


def test_what_is_written_while_it_is_read_is_another_state(stage: Stage) -> None:
    stage.file.about_to_be_read()
    stage.change("second")
    assert stage.read_after(SETTLED_SECONDS) == ["second"]


def test_whoever_cannot_wait_gets_what_was_written_a_while_ago(stage: Stage) -> None:
    stage.path.write_text("second")
    old = time.time() - 60
    os.utime(stage.path, (old, old))
    stage.file.look_at_once()
    assert stage.readings == ["second"]


def test_whoever_cannot_wait_does_not_get_what_is_fresh_or_gone(stage: Stage) -> None:
    stage.path.write_text("second")
    stage.file.look_at_once()
    stage.path.unlink()
    stage.file.look_at_once()
    assert stage.readings == []
    assert stage.read_after(VANISHED_SECONDS) == [None]


def test_a_file_that_becomes_readable_is_another_state(stage: Stage) -> None:
    before = signature(str(stage.path))
    # The kernel's clock has to move on, or both changes are one.
    while stage.path.chmod(0o600) or signature(str(stage.path)) == before:
        pass
    stage.file.look()
    assert stage.read_after(SETTLED_SECONDS) == ["first"]


def test_a_file_that_is_waited_for_at_the_end_is_not_read(stage: Stage) -> None:
    stage.change("second")
    stage.file.close()
    assert stage.read_after(100) == []


def settled(stage: Stage, text: str) -> None:
    """Write the file as one that was last written a while ago."""
    stage.path.write_text(text)
    past = time.time() - 10 - len(text)
    os.utime(stage.path, (past, past))


def test_a_file_that_is_written_between_the_look_and_the_read_is_read_again_when_it_has_settled(stage: Stage) -> None:
    found: list[tuple[str, bool]] = []
    writes = ["ha"]

    def read() -> None:
        if writes:
            stage.write(writes.pop())
        stage.file.about_to_be_read()
        text = stage.path.read_text()
        found.append((text, stage.file.was_left_alone()))

    stage.file = ConfigFile(str(stage.path), signature(str(stage.path)), read)
    settled(stage, "whole")
    stage.file.look_at_once()
    assert found == [("ha", False)]
    stage.change("half and half")
    stage.clock.pass_time(SETTLED_SECONDS)
    assert found[1:] == [("half and half", True)]


def test_a_file_that_is_removed_between_the_look_and_the_read_may_come_back(stage: Stage) -> None:
    found: list[bool] = []

    def read() -> None:
        stage.file.about_to_be_read()
        stage.path.unlink(missing_ok=True)
        found.append(stage.file.was_left_alone())

    stage.file = ConfigFile(str(stage.path), signature(str(stage.path)), read)
    settled(stage, "whole")
    stage.file.look_at_once()
    assert found == [False]
    stage.clock.pass_time(VANISHED_SECONDS - 0.1)
    assert found == [False]
    stage.clock.pass_time(0.2)
    assert found == [False, True]
