"""A thousand calls run while servers are added, changed and removed: only those of removed or changed ones may fail."""

import pytest

from support.daemon import Scratch
from support.kernel import until
from support.reload_load import CALLS, Load

RELOADS = 12


@pytest.mark.quick
def test_a_thousand_calls_outlive_reloads_that_add_change_and_remove_servers(scratch: Scratch) -> None:
    load = Load(scratch, seed=1)
    load.call(CALLS)
    until(lambda: load.in_flight() == CALLS, "all of them run at the same time")
    load.reload(passing=False)
    assert load.in_flight() > CALLS / 2
    load.call(50)
    load.break_config()
    load.reload(passing=True, by_signal=True)
    load.call(50)
    failed = load.settle()
    # The test would prove little if none had been in the way.
    assert failed["passing"] > 0
    assert failed["changing"] > 0


# For longer, over many reloads of all kinds; a seed that fails is in the test's name.
@pytest.mark.parametrize("seed", range(4))
def test_calls_outlive_many_reloads(scratch: Scratch, seed: int) -> None:
    load = Load(scratch, seed)
    load.call(CALLS)
    for number in range(RELOADS):
        load.reload(passing=number % 2 == 1, by_signal=number % 3 == 1)
        load.call(CALLS // 10)
        if number % 4 == 3:
            load.break_config()
    failed = load.settle()
    assert failed["passing"] > 0
    assert failed["changing"] > 0
