"""What a test needs of the machine. A skip is visible, and in CI there is none."""

import os
import shutil

import pytest


def needs(condition: object, reason: str) -> None:
    """Skip the test where the condition does not hold; in CI it has to."""
    if not condition:
        if os.environ.get("CI"):
            pytest.fail(f"in CI this must not be missing: {reason}")
        pytest.skip(reason)


def needs_root() -> None:
    """Ordinary users skip, in CI too: what the test does is not theirs to do."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


def needs_program(name: str) -> str:
    """The path of a program."""
    found = shutil.which(name)
    needs(found, f"the program {name}")
    assert found is not None
    return found
