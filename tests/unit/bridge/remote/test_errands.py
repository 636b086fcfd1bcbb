"""Headers whose references are filled in by a process of its own: what it is told, when, and that it ends."""

import json
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from hearth.bridge import child
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
        self.token = "first"
        self.count = 0
        monkeypatch.setattr(errands, "run", self._run)

    def _run(self, words: list[str], told: bytes = b"") -> dict[str, Any]:
        self.count += 1
        return {"values": [f"Bearer {self.token}"]}


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

    class Noted(child.Child):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            started.append(self)

    monkeypatch.setattr(child, "Child", Noted)
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
