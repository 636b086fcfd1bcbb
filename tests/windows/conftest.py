"""What the tests on Windows share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A daemon of its own, once somebody connects."""
    found = House(tmp_path)
    yield found
    found.clear()
