"""What holds for every test."""

import signal


def pytest_configure() -> None:
    """Programs that the tests interrupt must not have inherited that they ignore it, as a shell's `&` has it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
