"""`hearth upstreams` as typed: figures of what runs, what is configured when nothing does."""

import os

from e2e.cli_home import Bridge, Home
from support.kernel import until


def test_calls_and_errors_are_counted_and_processes_weighed(home: Home, bridge: Bridge) -> None:
    for _ in range(3):
        assert "result" in bridge.ask("tools/call", name="demo__count", arguments={})
    assert bridge.ask("tools/call", name="demo__add", arguments={"a": "no"})["result"]["isError"] is True
    (found,) = home.json("upstreams", "--json")
    assert (found["name"], found["calls"], found["errors"]) == ("demo", 4, 1)
    (instance,) = found["instances"]
    assert instance["calls"] == found["calls"]
    assert 0 < instance["p50Ms"] <= instance["p95Ms"]
    assert instance["memoryBytes"] > 1_000_000
    assert found["memoryBytes"] == instance["memoryBytes"]
    assert instance["startedAt"] > 1e9
    assert os.path.exists(f"/proc/{instance['pids'][0]}")


def test_it_is_the_same_as_in_the_status_document(home: Home, bridge: Bridge) -> None:
    bridge.ask("tools/list")
    listed, status = home.json("upstreams", "--json"), home.json("status", "--json")
    assert [each.keys() for each in listed] == [each.keys() for each in status["upstreams"]]


def test_a_name_shows_every_instance(home: Home, bridge: Bridge) -> None:
    bridge.ask("tools/call", name="demo__count", arguments={})
    whole, named = (home.run("upstreams", *words).stdout.splitlines() for words in ((), ("demo",)))
    assert len(named) == len(whole) + 1


def test_a_name_that_is_not_right_gets_the_nearest(home: Home) -> None:
    home.configure_demo()
    assert "Did you mean 'demo'?" in home.fails(2, "upstreams", "dmo")


def test_with_no_daemon_it_says_what_is_configured(home: Home) -> None:
    home.write_config('[mcpServers.a]\ncommand = "a"\n[mcpServers.b]\nurl = "http://b"\ndisabled = true\n')
    assert "hearth is not running" in home.ok("upstreams")
    states = [(each["name"], each["state"]) for each in home.json("upstreams", "--json")]
    assert states == [("a", "stopped"), ("b", "disabled")]
    assert not os.path.exists(home.registry)


def test_what_is_kept_of_servers_is_known_when_nothing_runs(home: Home, bridge: Bridge) -> None:
    bridge.ask("tools/list")
    bridge.end()
    assert home.run("stop", "--yes").returncode == 0
    (found,) = home.json("upstreams", "--json")
    assert (found["state"], found["tools"], found["era"], found["pids"]) == ("stopped", 4, "legacy", [])


def test_the_names_are_completed(home: Home) -> None:
    home.configure_demo()
    assert home.complete("hearth upstreams d") == ["demo"]


# --- hearth restart SERVER


def pid_of(home: Home) -> int:
    (found,) = home.json("upstreams", "demo", "--json")
    (pid,) = found["pids"]
    return int(pid)


def test_one_server_is_restarted_and_its_clients_stay(home: Home, bridge: Bridge) -> None:
    def counted() -> str:
        return str(bridge.ask("tools/call", name="demo__count", arguments={})["result"]["content"][0]["text"])

    assert (counted(), counted()) == ("1", "2")
    former = pid_of(home)
    assert "the next call starts it anew" in home.ok("restart", "demo")
    assert counted() == "1"
    assert pid_of(home) != former
    (found,) = home.json("upstreams", "--json")
    assert found["calls"] == 3


def test_whoever_waits_for_an_answer_is_told_of_before_a_restart(home: Home, bridge: Bridge) -> None:
    bridge.begin("tools/call", name="demo__slow", arguments={"seconds": 60})
    until(lambda: any(each["inFlight"] for each in home.json("upstreams", "--json")[0]["instances"]), "it is counted")
    assert "1 call to demo in flight" in home.fails(5, "restart", "demo")
    assert home.run("restart", "demo", "--yes").returncode == 0


def test_a_server_that_is_not_there_or_does_not_run_is_not_restarted(home: Home) -> None:
    home.configure_demo()
    assert "Did you mean 'demo'?" in home.fails(2, "restart", "dmo")
    assert "not running" in home.ok("restart", "demo")
