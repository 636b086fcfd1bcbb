"""Bridges and a daemon, real processes all, on a named pipe."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from house import DEMO, ECHO, LIMIT_SECONDS, UPSTREAMS, House, is_gone, wait_for

from hearth import registry
from hearth.host import processes
from hearth.host.windows import pipe_streams
from hearth.stdio_client import ClientError

PAYLOAD_CHARACTERS = 5 * 1024 * 1024


def test_two_bridges_share_one_server_through_the_pipe_and_it_all_goes_out_when_they_have_left(house: House) -> None:
    house.write(idle_timeout=1, demo=DEMO)
    one, two = house.client("one"), house.client("two")
    servers = {client.text(client.call("whoami")) for client in (one, two)}
    assert len(servers) == 1
    # Each its own answer, and one counter for both.
    sums = [(client, number, client.call("add", a=number, b=1000)) for number in range(10) for client in (one, two)]
    assert [client.text(call) for client, _, call in sums] == [str(number + 1000) for _, number, _ in sums]
    assert {one.text(one.call("count")), two.text(two.call("count"))} == {"1", "2"}
    status = house.status()
    assert [len(status["sessions"]), status["containment"]] == [2, "job objects"]
    assert {session["pid"] for session in status["sessions"]} == {one.process.pid, two.process.pid}
    daemon, server = house.pid(), int(servers.pop())
    house.leave()
    assert processes.wait_gone(daemon, processes.UNKNOWN_START_TIME, LIMIT_SECONDS)
    assert is_gone(server)
    assert registry.read(house.places) is None
    with pytest.raises(FileNotFoundError):
        pipe_streams.connect(house.places.socket)
    assert "nobody was there for 1 s" in Path(house.places.log).read_text("utf-8")


def test_who_comes_after_the_daemon_went_out_lights_another(house: House) -> None:
    house.write(idle_timeout=0.2, demo=DEMO)
    first = house.client()
    daemon = house.pid()
    first.text(first.call("whoami"))
    house.leave()
    assert processes.wait_gone(daemon, processes.UNKNOWN_START_TIME, LIMIT_SECONDS)
    second = house.client()
    assert second.text(second.call("add", a=1, b=2)) == "3"
    assert house.pid() != daemon


def test_a_daemon_that_is_killed_in_mid_flight_is_survived_by_its_bridges(house: House) -> None:
    house.write(demo=DEMO)
    one, two = house.client("one"), house.client("two")
    former = {client.text(client.call("whoami")) for client in (one, two)}
    calls = [(client, client.call("slow", True, seconds=1, steps=10)) for client in (one, two)]
    for client, call in calls:
        client.wait_for_progress(call)
    killed = house.kill()
    # Read-only calls are asked again of the next daemon, and answered once.
    assert all(client.text(call) for client, call in calls)
    assert house.pid() != killed
    wait_for(lambda: all(is_gone(int(server)) for server in former), "the end of the killed daemon's server")
    now = {client.text(client.call("whoami")) for client in (one, two)}
    assert len(now) == 1
    assert now != former


def test_a_bridge_whose_daemon_was_killed_between_two_calls_takes_the_next_one_to_another(house: House) -> None:
    house.write(demo=DEMO)
    client = house.client()
    assert [client.text(client.call("count")) for _ in range(2)] == ["1", "2"]
    house.kill()
    # A new server's first.
    assert client.text(client.call("count")) == "1"


def test_five_megabytes_go_there_and_back_while_others_talk(house: House) -> None:
    house.write(echo=ECHO, demo=DEMO)
    one, two = house.client("one"), house.client("two")
    texts = {client: client.name[0] * PAYLOAD_CHARACTERS for client in (one, two)}
    calls = [(client, client.call("echo", text=text)) for client, text in texts.items()]
    assert two.text(two.call("demo__add", a=1, b=2)) == "3"
    assert all(client.text(call) == texts[client] for client, call in calls)


def test_many_who_come_at_once_are_all_served(house: House) -> None:
    house.write(demo=DEMO)
    house.client()
    endpoint, pid = house.places.socket, house.pid()

    def ask(number: int) -> int:
        from hearth.control_client.connection import ControlConnection

        with ControlConnection(endpoint, pid) as control:
            return int(control.status()["pid"])

    with ThreadPoolExecutor(max_workers=40) as crowd:
        assert list(crowd.map(ask, range(200))) == [pid] * 200


def test_many_bridges_at_once_light_one_daemon(house: House) -> None:
    house.write(demo=DEMO)
    with ThreadPoolExecutor(max_workers=8) as crowd:
        clients = list(crowd.map(lambda number: house.client(f"agent {number}"), range(8)))
    assert len({client.opened["_meta"]["hearth/daemonId"] for client in clients}) == 1
    assert len({client.text(client.call("whoami")) for client in clients}) == 1


def test_what_is_wrong_with_the_config_is_said_and_mended_without_a_new_bridge(house: House) -> None:
    house.config.write_text("idle_timeout = tomorrow\n", encoding="utf-8")
    with pytest.raises(ClientError, match=r"Hearth cannot serve: .*config\.toml"):
        house.client()
    assert house.status()["degraded"]
    house.write(demo=DEMO)
    client = house.client()
    assert client.text(client.call("add", a=2, b=2)) == "4"
    assert house.status()["degraded"] is None


def test_a_bridge_ends_with_its_client_and_not_before_its_answers_are_out(house: House) -> None:
    house.write(demo=DEMO)
    client = house.client()
    call = client.call("slow", seconds=1, steps=2)
    client.hang_up()
    assert client.text(call)
    assert client.leave() == 0


def test_a_server_that_is_a_script_gets_its_arguments_as_they_are_and_its_stderr_is_kept(house: House) -> None:
    folder = house.config.parent
    program = "import json, runpy, sys\nprint(json.dumps(sys.argv[1:]), file=sys.stderr, flush=True)\n"
    # The server imports a module from its own folder, which run_path does not add.
    run = f"sys.path.insert(0, {str(UPSTREAMS)!r})\nrunpy.run_path({ECHO[-1]!r})\n"
    (folder / "said.py").write_text(program + run, encoding="utf-8")
    (folder / "a server.cmd").write_text(f'@"{sys.executable}" -I -S "{folder}\\said.py" %*\n', encoding="ascii")
    arguments = ["a b", "x&y", "plain", "", 'say "so"', "end\\"]
    house.write(scripted=[str(folder / "a server"), *arguments])
    client = house.client()
    assert client.text(client.call("echo", text="hello")) == "hello"
    log = Path(house.places.server_log("scripted"))
    said = wait_for(lambda: log.exists() and log.read_text("utf-8"), "its stderr")
    assert str(said).splitlines()[0].endswith(f"] {json.dumps(arguments)}")


def test_a_program_that_is_not_there_is_named(house: House) -> None:
    house.write(missing=["no-such-program"])
    client = house.client("an agent", "--server", "missing")
    with pytest.raises(ClientError, match="command 'no-such-program' was not found on the daemon's PATH"):
        client.text(client.request("tools/call", name="x", arguments={}))
