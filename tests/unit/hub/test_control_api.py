"""What `systemctl status` shows in its line."""

import pytest

from hearth.hub.control_api import line


@pytest.mark.parametrize(
    ("sessions", "states", "running", "calls", "said"),
    [
        (0, {}, 0, 0, "0 sessions, 0 servers, 0 calls"),
        (1, {"a": "ready"}, 1, 1, "1 session, 1 server (1 running), 1 call"),
        (
            3,
            {"a": "ready", "github": "given up", "b": "stopped"},
            1,
            2,
            "3 sessions, 3 servers (1 running, 1 failing: github), 2 calls",
        ),
        (
            0,
            dict.fromkeys("abcde", "failed"),
            0,
            0,
            "0 sessions, 5 servers (5 failing: a, b, c and 2 more), 0 calls",
        ),
        (0, {"x": "needs login"}, 0, 0, "0 sessions, 1 server (1 waiting for a login: x), 0 calls"),
    ],
)
def test_it_counts_and_names_what_fails(
    sessions: int, states: dict[str, str], running: int, calls: int, said: str
) -> None:
    assert line(sessions, states, running, calls) == said
