"""The start of a bridge to an HTTP server, which its client waits for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import hearth
from hearth.bridge import spawn_posix

SERVICE = Path(hearth.__file__).parents[1]
# Each takes longer to load than all of the bridge.
HEAVY = {"asyncio", "collections", "email", "enum", "http", "json", "re", "socket", "ssl", "threading", "typing"}


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    program = f"import sys; sys.path.append({str(SERVICE)!r}); import hearth.bridge.remote.entry; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "hearth" in loaded
    assert loaded & HEAVY == set()


# Its main thread is in a read that goes on after a signal, as one does that was begun just after it.
READING = """
import os, signal
from hearth.bridge.remote import entry

class Carrier:
    def say_goodbye(self):
        os.write(1, b"goodbye\\n")

entry._leave_on_signals(Carrier())
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.siginterrupt(number, False)
os.write(1, b"ready\\n")
os.read(0, 1)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are handled otherwise there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_heard_whatever_the_thread_does_that_reads_the_client(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", READING], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(number)
            assert process.wait(20) == -number
            assert process.stdout.read() == b"goodbye\n"
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are handled otherwise there")
def test_a_program_that_it_starts_hears_of_signals_itself() -> None:
    shown = "import signal; print([number.name for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())])"
    former = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    try:
        assert spawn_posix.run([sys.executable, "-c", shown], dict(os.environ), 20) == (0, "[]")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
