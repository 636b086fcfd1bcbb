"""What holds for every test."""

import signal
import sys

import pytest

# Theirs is a Windows Python: see `make test-windows`.
collect_ignore = [] if sys.platform == "win32" else ["windows"]

# What `make test` has no time for, by folder and the beginning of a file's name: who adds one need not think of it.
THOROUGH = {
    "conformance": ("test_wires_",),
    "process": (
        "test_bridge_to_",
        "test_corners_",
        "test_http_",
        "test_launchd_",
        "test_oauth_",
        "test_orphans",
        "test_pins_",
        "test_reload_",
        "test_search_",
        "test_secrets_",
        "test_sharing_",
        "test_stderr_",
        "test_stdio_",
        "test_supervised_",
        "test_wicked_",
    ),
    "e2e": (
        "test_cli_demo",
        "test_doctor_",
        "test_setup_",
        "test_systemd_http",
        "test_systemd_orphans",
        "test_systemd_trouble",
        "test_systemd_units",
    ),
}


def pytest_configure() -> None:
    """Programs that the tests interrupt must not have inherited that they ignore it, as a shell's `&` has it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform == "win32":
        return
    for terminal in (signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(terminal) == signal.SIG_IGN:
            signal.signal(terminal, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is run by `make thorough`: everything in these files that is not marked as quick."""
    for item in items:
        is_thorough = item.path.name.startswith(THOROUGH.get(item.path.parent.name, ()))
        if is_thorough and "quick" not in item.keywords:
            item.add_marker("thorough")
