"""What a daemon's first words mean."""

import pytest

from hearth.bridge.activation import judge
from hearth.errors import StartError


def test_ok_means_that_it_listens_whatever_was_said_before() -> None:
    assert judge("a warning\nok\n", "the.log")


def test_another_daemon_that_runs_is_no_failure() -> None:
    assert "pid 12" in judge("running pid 12 at /x\n", "the.log")


@pytest.mark.parametrize("said", ["", "\n \n"])
def test_one_that_was_killed_before_it_could_speak_may_have_a_luckier_successor(said: str) -> None:
    assert "the.log" in judge(said, "the.log")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("line 3: no such key\n", "line 3: no such key"),
        ("Traceback (most recent call last):\n  File x\nImportError: y\n", "ImportError: y"),
    ],
)
def test_anything_else_is_the_reason(said: str, told: str) -> None:
    with pytest.raises(StartError) as caught:
        judge(said, "the.log")
    assert told in str(caught.value)
