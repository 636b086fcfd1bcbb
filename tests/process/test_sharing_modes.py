"""Who shares a process of a server: by isolation, by era, for how long, and what is remembered of it."""

import json
import os
from pathlib import Path

import pytest

from support.clients import Client, Message, modern, text_of
from support.daemon import Daemon, Scratch, pids_of, server
from support.kernel import is_gone, until

# As long as nobody uses it any more: not at once, and soon.
IDLE_SECONDS = 0.2


class Counted:
    """A client of the server that counts."""

    def __init__(self, client: Client, era: str = "legacy") -> None:
        self.client = client
        self.era = era
        if era == "legacy":
            client.initialize()

    def call(self, tool: str = "keep__count") -> Message:
        params: Message = {"name": tool, "arguments": {}}
        return json.loads(text_of(self.client.ask("tools/call", modern(**params) if self.era == "modern" else params)))

    def close(self) -> None:
        self.client.close()


def folder(scratch: Scratch, name: str) -> str:
    path = scratch.home / name
    path.mkdir(exist_ok=True)
    return str(path)


def counted(scratch: Scratch, place: str = "A", era: str = "legacy") -> Counted:
    """One more client that works in that folder."""
    return Counted(scratch.frames(cwd=folder(scratch, place)), era)


def serve(scratch: Scratch, *eras: str, **keys: object) -> Daemon:
    scratch.configure({"keep": server("keeping", *eras, **keys)})
    return scratch.start()


def instances(scratch: Scratch) -> list[Message]:
    return scratch.upstream("keep")["instances"]


# --- who shares with whom


@pytest.mark.parametrize(
    ("isolation", "counts"),
    [("shared", [1, 2, 3]), ("auto", [1, 2, 3]), ("workspace", [1, 2, 1]), ("session", [1, 1, 1])],
)
def test_a_counter_in_memory_tells_who_shares_it(scratch: Scratch, isolation: str, counts: list[int]) -> None:
    serve(scratch, isolation=isolation)
    clients = [counted(scratch, place) for place in ("A", "A", "B")]
    states = [client.call() for client in clients]
    assert [state["count"] for state in states] == counts
    # What was kept stays with whom it was kept for.
    again = [client.call() for client in clients]
    assert [state["pid"] for state in again] == [state["pid"] for state in states]
    assert len({state["pid"] for state in states}) == len(instances(scratch)) == counts.count(1)


def test_the_server_s_folder_is_the_client_s_where_it_is_not_shared(scratch: Scratch) -> None:
    entries = {mode: server("keeping", isolation=mode) for mode in ("shared", "workspace", "session")}
    scratch.serve(entries)
    found = {
        place: {mode: counted(scratch, place).call(f"{mode}__count")["cwd"] for mode in entries} for place in ("A", "B")
    }
    for place, folders in found.items():
        own = folder(scratch, place)
        assert folders == {"shared": str(scratch.home), "workspace": own, "session": own}


def test_a_configured_folder_counts_in_every_mode(scratch: Scratch) -> None:
    own = folder(scratch, "own")
    entries = {mode: server("keeping", isolation=mode, cwd=own) for mode in ("shared", "workspace", "session")}
    scratch.serve(entries)
    client = counted(scratch)
    assert {client.call(f"{mode}__count")["cwd"] for mode in entries} == {own}


def test_clients_without_a_folder_share_no_workspace(scratch: Scratch) -> None:
    serve(scratch, isolation="workspace")
    clients = [Counted(scratch.lines()) for _ in range(2)]
    assert [client.call()["count"] for client in clients] == [1, 1]


def test_a_project_s_server_is_auto_per_workspace(scratch: Scratch) -> None:
    entry = server("keeping")
    assert isinstance(entry["args"], list)
    scratch.serve({"keep": {**entry, "args": [*entry["args"], "--file", "./starts"]}})
    states = [counted(scratch, place).call() for place in ("A", "B", "A")]
    assert [state["count"] for state in states] == [1, 1, 2]
    for place in ("A", "B"):
        starts = (Path(folder(scratch, place)) / "starts").read_text().split()
        assert starts == [str(state["pid"]) for state in states if state["cwd"] == folder(scratch, place)][:1]


# --- eras


@pytest.mark.parametrize("isolation", ["auto", "workspace"])
@pytest.mark.parametrize("first", ["legacy", "modern"])
def test_a_server_of_both_eras_has_one_process_for_clients_of_both(
    scratch: Scratch, first: str, isolation: str
) -> None:
    daemon = serve(scratch, "legacy", "modern", isolation=isolation)
    second = "modern" if first == "legacy" else "legacy"
    states = [counted(scratch, era=era).call() for era in (first, second, first, second)]
    assert [(state["era"], state["count"]) for state in states] == [(first, count) for count in (1, 2, 3, 4)]
    assert {state["pid"] for state in states} == set(pids_of(scratch, "keep"))
    # The next daemon knows the era, although its first client speaks the other one.
    assert daemon.stop() == 0
    scratch.start()
    assert counted(scratch, era=second).call()["era"] == first


@pytest.mark.parametrize("first", ["legacy", "modern"])
def test_with_the_era_of_the_client_a_server_of_both_eras_has_a_process_for_each(scratch: Scratch, first: str) -> None:
    serve(scratch, "legacy", "modern", era="client")
    second = "modern" if first == "legacy" else "legacy"
    states = [counted(scratch, era=era).call() for era in (first, second, first, second)]
    assert [state["era"] for state in states] == [first, second, first, second]
    assert [state["count"] for state in states] == [1, 1, 2, 2]
    assert sorted(item["era"] for item in instances(scratch)) == ["legacy", "modern"]


def test_a_server_of_both_eras_that_is_shared_by_hand_has_one_process(scratch: Scratch) -> None:
    serve(scratch, "legacy", "modern", isolation="shared")
    states = [counted(scratch, era=era).call() for era in ("legacy", "modern", "legacy", "modern")]
    assert [state["count"] for state in states] == [1, 2, 3, 4]
    assert len({(state["pid"], state["era"]) for state in states}) == 1
    assert len(instances(scratch)) == 1


@pytest.mark.parametrize("only", ["legacy", "modern"])
@pytest.mark.parametrize("first", ["legacy", "modern"])
def test_a_server_of_one_era_has_one_process_for_clients_of_both(scratch: Scratch, only: str, first: str) -> None:
    serve(scratch, only)
    second = "modern" if first == "legacy" else "legacy"
    clients = [counted(scratch, era=era) for era in (first, second)]
    assert [client.call()["count"] for client in clients * 2] == [1, 2, 3, 4]
    (instance,) = instances(scratch)
    assert instance["era"] == only
    # One that was started only to find that out is gone.
    (pid,) = instance["pids"]
    until(lambda: all(is_gone(other) for other in started(scratch) - {pid}), "there is one process")


def started(scratch: Scratch) -> set[int]:
    """The processes of the server, by the kernel."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
        except OSError:
            # It has just ended, or is not ours to see.
            continue
        if (
            any(word.endswith(b"keeping_server.py") for word in words)
            and b"HOME=%b" % bytes(scratch.home) in environment
        ):
            found.add(int(name))
    return found


@pytest.mark.parametrize(("isolation", "counts"), [("workspace", [1, 1, 2, 2]), ("session", [1, 1, 1, 1])])
def test_each_era_is_isolated_by_itself(scratch: Scratch, isolation: str, counts: list[int]) -> None:
    serve(scratch, "legacy", "modern", isolation=isolation, era="client")
    eras = ("legacy", "modern", "legacy", "modern")
    states = [counted(scratch, era=era).call() for era in eras]
    assert [(state["era"], state["count"]) for state in states] == list(zip(eras, counts, strict=True))


def test_a_client_that_speaks_both_eras_has_a_process_of_each(scratch: Scratch) -> None:
    serve(scratch, "legacy", "modern", isolation="session")
    client = counted(scratch)
    both = [client.call(), Counted(client.client, "modern").call(), client.call()]
    assert [(state["era"], state["count"]) for state in both] == [("legacy", 1), ("modern", 1), ("legacy", 2)]


# --- for how long


@pytest.mark.parametrize("isolation", ["shared", "workspace", "session"])
def test_a_process_ends_when_its_last_client_has_left_for_a_while(scratch: Scratch, isolation: str) -> None:
    serve(scratch, isolation=isolation, instance_idle=IDLE_SECONDS)
    first, second = counted(scratch), counted(scratch)
    pids = [first.call()["pid"], second.call()["pid"]]
    first.close()
    if isolation == "session":
        until(lambda: is_gone(pids[0]), "the first one's process has ended")
    else:
        assert pids[0] == pids[1]
    # Whoever is still there keeps what it uses.
    assert second.call()["pid"] == pids[1]
    assert not is_gone(pids[1])
    second.close()
    until(lambda: is_gone(pids[1]), "the last one's process has ended")
    until(lambda: instances(scratch) == [], "nothing of it is left in the status")
    assert counted(scratch).call()["count"] == 1


def test_a_process_stays_for_a_client_that_comes_back_in_time(scratch: Scratch) -> None:
    serve(scratch, instance_idle=300)
    with scratch.frames() as client:
        pid = Counted(client).call()["pid"]
    until(lambda: instances(scratch)[0]["sessions"] == 0, "it has left")
    assert counted(scratch).call() == {"count": 2, "pid": pid, "era": "legacy", "cwd": str(scratch.home)}


@pytest.mark.parametrize("isolation", ["shared", "session"])
def test_a_client_that_leaves_while_its_server_starts_leaves_no_process_behind(
    scratch: Scratch, isolation: str
) -> None:
    gate = scratch.home / "gate"
    os.mkfifo(gate)
    serve(scratch, "--gate", str(gate), isolation=isolation, instance_idle=IDLE_SECONDS)
    with scratch.frames() as client:
        client.initialize()
        client.begin_call("keep__count")
        (pid,) = pids_of(scratch, "keep")
    until(lambda: scratch.status()["sessions"] == [], "it has left")
    gate.write_text("")
    until(lambda: is_gone(pid), "its process has ended")
    until(lambda: instances(scratch) == [], "nothing of it is left in the status")


# --- what is remembered


def test_a_reload_that_changes_who_shares_it_takes_effect_with_the_next_call(scratch: Scratch) -> None:
    serve(scratch)
    first, second = counted(scratch), counted(scratch)
    assert [first.call()["count"], second.call()["count"]] == [1, 2]
    scratch.reconfigure({"keep": server("keeping", isolation="session")})
    assert [first.call()["count"], second.call()["count"], first.call()["count"]] == [1, 1, 2]
