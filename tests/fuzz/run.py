"""Fuzzing: `python tests/fuzz/run.py --count 2000000 [--seed N]`.

Millions of random, truncated and mutated inputs go into every parser. Wanted: no exception but the typed ones, no
hang, no memory that grows. Inputs are a function of seed and number, so that `--seed N --first I` repeats a failure.
"""

import argparse
import faulthandler
import gc
import signal
import sys
import time
from pathlib import Path
from random import Random, SystemRandom

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "service")]

from fuzz.inputs import make_input
from fuzz.targets import TARGETS

# Inputs share one random generator in groups of this size: seeding is slower than parsing.
BATCH = 250
# A batch takes some 50 ms; a machine may be a hundred times slower for a moment, a hang lasts for ever.
HANG_SECONDS = 30
# Memory may vary with what is in flight, but not grow with the number of inputs.
GROWTH_LIMIT_BYTES = 1024 * 1024


class FailureFound(Exception):
    """A parser did with an input what no parser may do."""


def run_batch(seed: int, first: int, size: int) -> None:
    """Try the inputs from `first` on; raises FailureFound, which names the input."""
    random = Random(f"{seed}/{first}")
    turns = [(corpus, target) for share, corpus, target in TARGETS for _ in range(round(share * 100))]
    data, number = b"", first
    set_alarm(HANG_SECONDS)
    try:
        while number < first + size:
            corpus, target = turns[int(random.random() * len(turns))]
            data = make_input(random, corpus)
            target(data, random)
            number += 1
    except Exception as exc:
        raise FailureFound(f"input {number} of seed {seed}: {type(exc).__name__}: {exc}\n{data!r}") from exc
    finally:
        set_alarm(0)


def set_alarm(seconds: float) -> None:
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, on_alarm)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def on_alarm(_number: int, _frame: object) -> None:
    raise TimeoutError(f"no end after {HANG_SECONDS} s")


def run(seed: int, first: int, count: int) -> None:
    """Try `count` inputs. Raises FailureFound."""
    for start in range(first - first % BATCH, first + count, BATCH):
        # Should even the alarm not get through, the interpreter itself says where it is, and exits.
        if start % (BATCH * 40) == 0:
            faulthandler.dump_traceback_later(HANG_SECONDS * 10, exit=True)
        run_batch(seed, start, min(BATCH, first + count - start))
    faulthandler.cancel_dump_traceback_later()


def resident_bytes() -> int:
    """Resident memory; 0 where the system does not tell."""
    gc.collect()
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2_000_000, help="inputs to try (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32), help="default: a new one")
    parser.add_argument("--first", type=int, default=0, help="number of the first input, to repeat a failure")
    options = parser.parse_args(argv)
    print(f"seed {options.seed}, {options.count} inputs", flush=True)
    began = time.monotonic()
    half = options.count // 2
    sizes = []
    try:
        for start, count in ((0, half), (half, options.count - half)):
            run(options.seed, options.first + start, count)
            sizes.append(resident_bytes())
            print(f"{start + count} inputs, {time.monotonic() - began:.0f} s, {sizes[-1] / 2**20:.1f} MB", flush=True)
    except FailureFound as failure:
        print(failure)
        return 1
    grown = sizes[1] - sizes[0]
    print(f"memory grew by {grown / 1024:.0f} KiB in the second half (at most {GROWTH_LIMIT_BYTES // 1024} allowed)")
    return 1 if grown > GROWTH_LIMIT_BYTES else 0


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
