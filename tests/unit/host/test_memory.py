"""Which processes belong to a server, and what they take."""

import os

from hearth.host import memory
from hearth.host.memory import Kin, family

EVERYBODY = {
    1: Kin(0, 1),
    10: Kin(1, 10),  # the server
    11: Kin(10, 10),  # its child
    12: Kin(11, 12),  # a grandchild in a group of its own
    13: Kin(1, 10),  # of its group, and somebody else's child since its parent died
    14: Kin(13, 14),
    20: Kin(1, 20),
}


def test_children_their_children_and_orphans_of_the_group_belong_to_a_server() -> None:
    assert family(10, EVERYBODY) == [10, 11, 12, 13, 14]


def test_another_server_has_its_own() -> None:
    assert family(20, EVERYBODY) == [20]


def test_a_server_that_is_gone_has_nobody() -> None:
    assert family(99, EVERYBODY) == []


def test_processes_that_are_their_own_parents_are_seen_once() -> None:
    assert family(5, {5: Kin(6, 5), 6: Kin(5, 5)}) == [5, 6]


def test_this_process_has_a_size_and_one_that_is_not_there_has_none() -> None:
    sizes = memory.of_families([os.getpid(), 2**22 + 1])
    assert (sizes[os.getpid()] or 0) > 1_000_000
    assert sizes[2**22 + 1] is None
