"""The daemon under load is killed again and again: no client may notice more than it must.

`make chaos` kills more often and in several rounds; HEARTH_CHAOS_SEED repeats a round's mix.
"""

import os
import random
import time

import pytest

from support.chaos.home import Home
from support.chaos.load import chosen_seed, death, settle, start, under_load
from support.daemon import server_command

BRIDGES = 8
KILLS = int(os.environ.get("HEARTH_CHAOS_KILLS") or 8)
ROUNDS = int(os.environ.get("HEARTH_CHAOS_ROUNDS") or 1)
# A kill and the way back take under a second; many times that on a machine that does other things too.
LIMIT_SECONDS = 90 + 6 * KILLS
# How long a daemon lives before it is killed; one in four dies as soon as it is registered.
LONGEST_LIFE_SECONDS = 0.7


@pytest.mark.timeout(LIMIT_SECONDS)
@pytest.mark.parametrize("_round", range(ROUNDS))
def test_a_daemon_that_is_killed_again_and_again_costs_no_answer_and_runs_nothing_twice(
    home: Home, _round: int
) -> None:
    # One server goes when its input ends; the other, and its child in a session of its own, must be made to.
    stubborn = server_command("stubborn", "--escape")
    home.configure({"counting": server_command("counting", str(home.notes)), "stubborn": stubborn})
    seed = chosen_seed()
    chance = random.Random(seed)
    with under_load(home, seed, BRIDGES) as loads:
        start(loads)
        for _ in range(KILLS):
            home.wait_for_daemon()
            time.sleep(max(0.0, chance.uniform(-LONGEST_LIFE_SECONDS / 3, LONGEST_LIFE_SECONDS)))
            with death(loads):
                home.kill_daemon()
                # A daemon that dies while it starts a server leaves its connections open in the child until that one's
                # exec: what is written into them meanwhile has been handed to nobody, and nobody can know.
                home.wait_for_daemon()
        settle(home, loads)
        in_flight = sum(load.exposed_calls() for load in loads)
        errors = sum(len(load.errors()) for load in loads)
        print(f"{sum(len(load.asked) for load in loads)} requests, {in_flight} in flight at the kills, {errors} errors")
        assert errors <= in_flight
        assert in_flight > 0
