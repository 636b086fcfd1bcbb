"""The daemon: listen, sniff, pump bytes, live and go out.

`entry` is standard library only, so that whatever is broken can still be said to a client; everything else is imported
behind its guard.
"""


def main(arguments: list[str]) -> int:
    """Run a daemon until it goes out; returns the exit code."""
    from hearth.daemon.main import main as run

    return run(arguments)
