"""Headers whose references are filled in by a process of its own: what it is told, when, and that it ends."""

import json
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from hearth.bridge import spawn_posix
from hearth.bridge.remote import errands
from hearth.bridge.remote.errands import Identity
from hearth.bridge.remote.target import Target
from hearth.errors import Unreachable

BOUND_SECONDS = 20
REFERENCE = "Bearer ${file:~/token}"
# Keeps what it was told, and fills in the same for every text.
NOTING = """
import json, os, sys
told = sys.stdin.buffer.read().decode()
with open({place!r}, "w") as file:
    json.dump([sys.argv[1:], told], file)
answer = dict(values=["filled"] * len(told.split(chr(0))))
os.write(int(sys.argv[-1]), b"errand " + json.dumps(answer).encode() + b"\\n")
"""
STUCK = "import time; time.sleep(1000)"


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have every errand run by that program."""
    path = folder / "errand"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(path))


def identity(*given: tuple[str, str]) -> Identity:
    return Identity(Target("http://127.0.0.1:1/mcp", ""), [*given])


class Lookups:
    """Errands that are not run: what each of them is told, and brings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.token: str | None = "first"
        self.count = 0
        # The clock of those who wait for the next one.
        self.now = 1000.0
        monkeypatch.setattr(errands, "run", self._run)
        monkeypatch.setattr(errands, "monotonic", lambda: self.now)

    def _run(self, words: list[str], told: bytes = b"") -> dict[str, Any]:
        self.count += 1
        if self.token is None:
            raise Unreachable("nobody is logged in, and there is no such file")
        return {"values": [f"Bearer {self.token}"], "authorization": f"Bearer {self.token}"}


def test_only_values_with_references_leave_and_nobody_can_see_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "told"
    program(tmp_path, monkeypatch, NOTING.format(place=str(place)))
    given = (("Authorization", REFERENCE), ("X-Plain", "s3cret"), ("X-Other", "${env:OTHER} é"))
    found = identity(*given).headers()
    assert found == {"Authorization": "filled", "X-Plain": "s3cret", "X-Other": "filled"}
    words, told = json.loads(place.read_text())
    assert told.split("\0") == [REFERENCE, "${env:OTHER} é"]
    assert "${" not in " ".join(words) and "s3cret" not in " ".join(words)


def test_without_a_reference_no_errand_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = Lookups(monkeypatch)
    plain = identity(("Authorization", "Bearer x"))
    sent = plain.headers()
    assert sent == {"Authorization": "Bearer x"}
    assert not plain.refused(401, None, sent)
    assert lookups.count == 0


def test_more_than_a_pipe_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Lookups(monkeypatch)
    with pytest.raises(Unreachable, match="16384 bytes"):
        identity(("X", "${env:X}" + "x" * 20_000)).headers()


def test_an_errand_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Noted(spawn_posix.PosixChild):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            started.append(self)

    monkeypatch.setattr(spawn_posix, "PosixChild", Noted)
    monkeypatch.setattr(errands, "ERRAND_SECONDS", 0.1)
    program(tmp_path, monkeypatch, STUCK)
    with pytest.raises(Unreachable, match=r"within 0\.1 s"):
        identity(("Authorization", REFERENCE)).headers()
    assert [found.exit_code(monotonic() + BOUND_SECONDS) is not None for found in started] == [True]


def test_who_is_refused_looks_again_and_asks_once_more_only_with_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookups = Lookups(monkeypatch)
    own = identity(("Authorization", REFERENCE), ("X-Plain", "x"))
    sent = own.headers()
    assert not own.refused(401, None, sent)
    lookups.token = "second"
    assert not own.refused(403, None, sent)
    assert own.refused(401, None, sent)
    assert own.headers() == {"Authorization": "Bearer second", "X-Plain": "x"}
    count = lookups.count
    # Another request that was on its way with the former one.
    assert own.refused(401, None, sent)
    assert lookups.count == count


def test_a_refusal_that_lasts_is_looked_into_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = Lookups(monkeypatch)
    own = identity(("Authorization", REFERENCE))
    sent, before = own.headers(), lookups.count
    times = []
    for _ in range(600):
        count = lookups.count
        assert not own.refused(401, None, sent)
        times += [lookups.now - 1000] * (lookups.count - count)
        lookups.now += 0.25
    assert times == [0, 0.25, 0.75, 1.75, 3.75, 7.75, 15.75, *(31.75 + 16 * number for number in range(8))]
    assert lookups.count - before == len(times)
    # One that helps makes the next one free again.
    lookups.now, lookups.token = lookups.now + 16, "second"
    assert own.refused(401, None, sent)
    sent, lookups.token = own.headers(), "third"
    assert own.refused(401, None, sent)


def test_a_reference_that_leads_nowhere_is_looked_up_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = Lookups(monkeypatch)
    lookups.token = None
    own = identity(("Authorization", REFERENCE))
    for _ in range(10):
        with pytest.raises(Unreachable, match="no such file"):
            own.headers()
    assert lookups.count == 2
    lookups.now, lookups.token = lookups.now + 1, "later"
    assert own.headers() == {"Authorization": "Bearer later"}


def test_a_login_that_is_missing_is_asked_for_again_when_it_may_be_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lookups, file = Lookups(monkeypatch), tmp_path / "oauth"
    monkeypatch.setattr(errands, "oauth_file", lambda: str(file))
    lookups.token = None
    own = identity(("X-Plain", "x"))
    sent = own.headers()
    for _ in range(10):
        with pytest.raises(Unreachable, match="nobody is logged in"):
            own.refused(401, None, sent)
    assert lookups.count == 2
    # What a forbidden tool has taught says nothing of a token that has ended.
    with pytest.raises(Unreachable, match="nobody is logged in"):
        own.refused(403, None, sent)
    assert lookups.count == 3
    file.write_text("127.0.0.1:1")
    lookups.token = "new"
    assert own.refused(401, None, sent)
    assert own.headers() == {"X-Plain": "x", "Authorization": "Bearer new"}
