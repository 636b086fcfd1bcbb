"""Fixtures that several unit tests share."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from hearth.paths import Places

# A machine that others use may stall any example for seconds; no test judges a time.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Set a home of the test's own, with no config in it."""
    with TemporaryDirectory(dir="/tmp") as folder:
        for name in [*os.environ]:
            if name.startswith(("XDG_", "HEARTH_")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    """Set a runtime folder of the test's own; the places of the default daemon in it."""
    with TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Places()
