"""What `systemctl status` shows in its line.

The hub as a whole: what a reload changes in it.
"""

from pathlib import Path

import pytest

from hearth.config import Config
from hearth.hub.status import line
from hearth.upstreams.supervision import READY
from unit.conversations import until
from unit.hub.whole_hub import PLENTY, Stage, answer


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
        (0, dict.fromkeys("abcde", "failed"), 0, 0, "0 sessions, 5 servers (5 failing: a, b, c and 2 more), 0 calls"),
        (0, {"x": "needs login"}, 0, 0, "0 sessions, 1 server (1 waiting for a login: x), 0 calls"),
    ],
)
def test_it_counts_and_names_what_fails(
    sessions: int, states: dict[str, str], running: int, calls: int, said: str
) -> None:
    assert line(sessions, states, running, calls) == said


async def test_settings_are_looked_up_when_they_are_needed(tmp_path: Path) -> None:
    hub = Stage(tmp_path).hub
    hub.apply(Config(list_timeout=1.0, question_timeout=2.0, parked_timeout=3.0, parked_limit=4, search_threshold=5))
    found = (
        hub._listing._timeout(),
        hub._relay._timeout(),
        hub._pipeline._loop._timeout(),
        hub._suspended_calls._patience(),
        hub._suspended_calls._limit(),
        hub._catalogue._threshold(),
    )
    assert found == (1.0, 2.0, 2.0, 3.0, 4, 5)


async def test_a_call_that_waits_for_a_server_is_answered_when_a_reload_takes_that_away(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a={})
    member, sink = stage.client()
    # Nobody but the one server can be meant, whatever it has.
    stage.ask(member, "extension/method")
    await until(stage.started, "it is being started")
    stage.hub.apply(Config())
    assert (await answer(sink))["error"]["message"] == "server 'a' is no longer in the config"


async def test_a_server_that_does_not_wait_for_a_call_is_started_anew_by_its_restart(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY)
    server = stage.servers["a"]
    server.spec = server.spec.replace(start="eager")
    await server.start_eagerly()
    stage.hub.restart("a")
    await until(lambda: len(server.connections) == 2 and server.state == READY, "another runs")
    await until(lambda: server.connections[0].stopped, "the former one has ended")
