"""A short run of the fuzzing that `make fuzz` does at length."""

import signal

import pytest

from fuzz import run
from fuzz.targets import TARGETS


def test_twenty_thousand_damaged_inputs_give_typed_errors_only() -> None:
    run.run(seed=1, first=0, count=20_000)


def test_a_failure_names_its_seed_and_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(data: bytes, random: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(run, "TARGETS", [(1.0, [b"abc"], refuse)])
    with pytest.raises(run.FailureFound, match=r"input 500 of seed 7: KeyError: 'a bug'\nb'"):
        run.run(seed=7, first=500, count=10)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the alarm is a POSIX signal")
def test_a_hang_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(data: bytes, random: object) -> None:
        while True:
            pass

    monkeypatch.setattr(run, "TARGETS", [(1.0, [b"abc"], hang)])
    monkeypatch.setattr(run, "HANG_SECONDS", 0.05)
    with pytest.raises(run.FailureFound, match="TimeoutError"):
        run.run_batch(seed=7, first=0, size=1)


def test_the_shares_of_the_parsers_make_one_whole() -> None:
    assert round(sum(share for share, _, _ in TARGETS), 6) == 1
