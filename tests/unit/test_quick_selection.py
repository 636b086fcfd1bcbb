"""Selection of `make test`: the tests of the HTTP door are in it, although their files are left to `make thorough`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOOR = {
    "tests/process/test_http_front.py": {"test_who_is_let_in"},
    "tests/process/test_http_ports.py": {
        "test_whoever_has_the_token_is_served_and_nobody_else",
        "test_an_empty_token_file_admits_no_request",
        "test_a_name_that_was_made_to_mean_this_machine_is_refused",
        "test_pages_of_allowed_origins_may_read_the_answer",
    },
    "tests/process/test_http_sessions_files.py": {
        "test_a_session_of_another_user_or_of_another_address_is_not_there",
        "test_a_session_for_one_server_is_unknown_at_other_addresses",
    },
    "tests/process/test_http_upstreams_trouble.py": {"test_a_redirect_to_another_server_is_not_followed"},
}


@pytest.mark.skipif(sys.platform == "win32", reason="the tests of the door need Unix sockets")
def test_the_tests_of_the_http_door_are_run_by_make_test() -> None:
    # The options of a run that has chosen its tests must not choose for this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", *DOOR]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    chosen = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    expected = {f"{path}::{name}" for path, names in DOOR.items() for name in names}
    assert expected - chosen == set(), done.stdout + done.stderr
