"""The fixture of the fresh machine."""

from collections.abc import Iterator

import pytest

from e2e.systemd.machine import Machine, missing_requirement
from fresh.layers import CLIENTS, PACKAGES, ROOT
from support.fresh.desk import Desk
from support.requirements import needs


@pytest.fixture
def desk() -> Iterator[Desk]:
    """The machine, booted; the user has just logged in."""
    reason = missing_requirement()
    needs(not reason, reason or "")
    for layer in (ROOT, CLIENTS, PACKAGES):
        needs(layer.exists(), f"{layer} (`make setup-test` makes it)")
    with Machine(over=[PACKAGES, CLIENTS, ROOT]) as machine:
        yield Desk(machine)
