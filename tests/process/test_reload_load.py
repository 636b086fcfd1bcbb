"""The same for longer, over many reloads of all kinds; a seed that fails is in the test's name."""

import pytest

from support.daemon import Scratch
from support.reload_load import CALLS, Load

RELOADS = 12


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
