"""Table of what waits for a decision: its bounds."""

import math
from collections.abc import Iterator

import pytest

from hearth.errors import NoRoom
from hearth.hub.authorization.pending import (
    BYTES_LIMIT,
    ITEMS_LIMIT,
    ITEMS_PER_PRINCIPAL,
    Pending,
    PendingItem,
    Settlement,
)


def item(principal: str, size: int = 0) -> PendingItem:
    found = PendingItem(principal, math.inf)
    found.size = size
    return found


def items(count: int) -> Iterator[PendingItem]:
    """Return items of as many principals as are needed."""
    return (item(str(number // ITEMS_PER_PRINCIPAL)) for number in range(count))


def test_one_principal_has_a_bound_and_room_again_after_a_decision() -> None:
    pending = Pending()
    mine = [item("me") for _ in range(ITEMS_PER_PRINCIPAL)]
    for each in mine:
        pending.add(each)
    with pytest.raises(NoRoom, match="20 requests of this client already wait"):
        pending.add(item("me"))
    pending.add(item("another"))
    pending.settle(mine[0], Settlement("denied"))
    pending.add(item("me"))


def test_all_principals_together_have_a_bound() -> None:
    pending = Pending()
    for each in items(ITEMS_LIMIT):
        pending.add(each)
    with pytest.raises(NoRoom, match="1000 requests already wait for a decision; `hearth approvals` lists them"):
        pending.add(item("another"))
    assert len(pending) == ITEMS_LIMIT


def test_arguments_that_are_kept_have_a_bound() -> None:
    pending = Pending()
    large = item("one", BYTES_LIMIT - 10)
    pending.add(large)
    with pytest.raises(NoRoom, match="over 67108864 bytes of requests would wait"):
        pending.add(item("two", 11))
    pending.add(item("two", 10))
    pending.add(item("three"))
    pending.settle(large, Settlement("withdrawn"))
    pending.add(item("two", 11))
