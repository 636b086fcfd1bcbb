"""Where a client works: its folder or its roots decide which process it shares, and are what that process is told."""

import os
from pathlib import Path
from typing import Any

import pytest

from support.conformance.clients import Client, LegacyClient, Message
from support.conformance.revisions import MODERN, NEWEST_LEGACY
from support.kernel import is_gone, until
from support.puppets.server import Puppet, PuppetServer
from support.puppets.sharing import House, act, asked, called, finish, heard_nothing, outcome

ROOTS_CHANGED = "notifications/roots/list_changed"
IDLE_SECONDS = 0.2
FOLDERS = [("ann", "here"), ("bob", "here"), ("cat", "there")]


class Rooted(LegacyClient):
    """A client whose roots a test chooses; with None it is asked and refuses."""

    roots: list[Message] | None = None

    def reply(self, method: str, params: Message) -> Message | None:
        return {"roots": self.roots} if method == "roots/list" else super().reply(method, params)

    def _answer(self, message: Message) -> Message:
        if self.roots is None:
            return {"error": {"code": -32603, "message": "not today"}}
        return super()._answer(message)

    def move(self, *roots: Message) -> None:
        """Work elsewhere from now on, and say so."""
        self.roots = [*roots]
        self.wire.send({"jsonrpc": "2.0", "method": ROOTS_CHANGED})


def rooted(house: House, name: str, *roots: Message, refuses: bool = False, place: str | None = None) -> Rooted:
    client = Rooted(house.scratch.frames(cwd=house.folder(place or name)), NEWEST_LEGACY, name)
    client.roots = None if refuses else [*roots]
    house.own(client)
    return client


def root(house: House, folder: str) -> Message:
    """The root that stands for a client's working directory."""
    return {"uri": f"file://{house.folder(folder)}", "name": folder}


def worked(server: PuppetServer, client: Client, is_asked: bool = False) -> Puppet:
    """A call from its beginning to its end; `is_asked`: first for the client's roots. The puppet that had it."""
    id_ = act(client)
    if is_asked:
        assert isinstance(client, LegacyClient)
        assert client.next_question()["method"] == "roots/list"
    puppet, call = called(server, client, id_)
    puppet.say(call, "done")
    found = outcome(client, id_)
    assert (found.text, found.questions) == ("done", [])
    return puppet


def told(server: PuppetServer, puppet: Puppet) -> Any:
    """What the puppet is answered when it asks for roots out of the blue."""
    puppet.ask("r", "roots/list")
    asker, answer = server.next(None)
    assert asker is puppet and answer["id"] == "r"
    return answer["result"]["roots"]


# --- by working directory


def test_a_workspace_without_declared_roots_is_the_working_directory(house: House, revision: str) -> None:
    server = house.serve(isolation="workspace")
    ann, bob, cat = (house.client(revision, name, place, bare=True) for name, place in FOLDERS)
    puppets = [worked(server, client) for client in (ann, bob, cat)]
    assert puppets[0] is puppets[1] is not puppets[2]
    assert told(server, puppets[0]) == [root(house, "here")]
    assert told(server, puppets[2]) == [root(house, "there")]
    # In the middle of a call it is the same, whoever else is in one.
    ids = [act(ann), act(bob)]
    calls = [server.next("tools/call") for _ in ids]
    assert told(server, puppets[0]) == [root(house, "here")]
    for (puppet, call), client in zip(calls, (ann, bob), strict=True):
        puppet.say(call, client.name)
    assert [outcome(ann, ids[0]).text, outcome(bob, ids[1]).text] == ["ann", "bob"]
    assert all(heard_nothing(client) for client in (ann, bob, cat))


def test_a_client_that_refuses_to_list_its_roots_works_in_its_directory(house: House) -> None:
    server = house.serve(isolation="workspace")
    ann = rooted(house, "ann", refuses=True, place="here")
    puppet = worked(server, ann, is_asked=True)
    assert told(server, puppet) == [root(house, "here")]
    # It is not asked a second time, and shares with those who work there.
    assert worked(server, ann) is puppet
    assert worked(server, house.client(MODERN, "bob", "here")) is puppet


# --- by declared roots


def test_clients_with_the_same_roots_share_a_workspace_wherever_they_were_started(house: House) -> None:
    server = house.serve(isolation="workspace")
    one, two = {"uri": "file:///srv/one", "name": "One", "_meta": {"x": [1]}}, {"uri": "file:///srv/two"}
    ann, bob, cat = rooted(house, "ann", one, two), rooted(house, "bob", two, one), rooted(house, "cat", one)
    puppets = [worked(server, client, is_asked=True) for client in (ann, bob, cat)]
    assert puppets[0] is puppets[1] is not puppets[2]
    assert told(server, puppets[0]) == [one, two]
    assert told(server, puppets[2]) == [one]
    # Each was asked once, and nothing of the servers' own questions reached it.
    for client, puppet in zip((ann, bob, cat), puppets, strict=True):
        assert worked(server, client) is puppet
        assert heard_nothing(client)


def test_one_folder_is_one_workspace_whatever_its_clients_call_it(house: House) -> None:
    """As Codex, Claude Code, opencode and Gemini CLI tell it, and one that was started through a link."""
    server = house.serve(isolation="workspace")
    folder = house.folder("my project")
    uri = Path(folder).as_uri()
    os.symlink(folder, house.scratch.home / "link")
    codex, linked = (
        house.client(MODERN, name, place, bare=True) for name, place in (("codex", "my project"), ("l", "link"))
    )
    claude, opencode = (rooted(house, name, {"uri": uri}, place="elsewhere") for name in ("claude", "opencode"))
    gemini = rooted(house, "gemini", {"uri": uri, "name": "my project"}, place="elsewhere")
    puppets = [worked(server, claude, is_asked=True), worked(server, codex), worked(server, linked)]
    puppets += [worked(server, client, is_asked=True) for client in (opencode, gemini)]
    assert len(set(map(id, puppets))) == 1
    (pid,) = house.pids()
    assert os.readlink(f"/proc/{pid}/cwd") == folder
    # A client that lists no folder at all has an instance of its own.
    assert worked(server, rooted(house, "none", place="my project"), is_asked=True) is not puppets[0]


def test_a_process_of_a_workspace_runs_in_its_first_folder_in_order(house: House) -> None:
    server = house.serve(isolation="workspace")
    folders = [house.folder(name) for name in ("b", "a")]
    worked(server, rooted(house, "ann", *({"uri": Path(folder).as_uri()} for folder in folders)), is_asked=True)
    (pid,) = house.pids()
    assert os.readlink(f"/proc/{pid}/cwd") == folders[1]


def test_a_client_that_changes_its_roots_moves_to_another_workspace(house: House) -> None:
    server = house.serve(isolation="workspace", instance_idle=IDLE_SECONDS)
    one, two = {"uri": "file:///srv/one"}, {"uri": "file:///srv/two"}
    ann, bob = rooted(house, "ann", one), rooted(house, "bob", two)
    first = worked(server, ann, is_asked=True)
    (pid,) = house.pids()
    second = worked(server, bob, is_asked=True)
    # What is under way when it moves ends where it is.
    id_ = act(ann)
    puppet, call = called(server, ann, id_)
    assert puppet is first
    ann.move(two)
    moved = act(ann)
    ann.next_question()
    puppet, later = called(server, ann, moved)
    assert puppet is second
    assert told(server, first) == [one]
    finish(ann, moved, puppet, later, "from the second")
    finish(ann, id_, first, call, "from the first")
    until(lambda: is_gone(pid), "the process that nobody uses any more has ended")
    assert worked(server, bob) is worked(server, ann) is second


def test_a_server_of_one_client_asks_it_for_its_roots_and_hears_that_they_change(house: House) -> None:
    server = house.serve(isolation="session")
    one, two = {"uri": "file:///srv/one"}, {"uri": "file:///srv/two"}
    ann = rooted(house, "ann", one)
    puppet = worked(server, ann)
    puppet.ask(1, "roots/list")
    ann.next_question()
    assert server.next(None)[1]["result"] == {"roots": [one]}
    ann.move(two)
    assert server.next(ROOTS_CHANGED)[0] is puppet
    puppet.ask(2, "roots/list")
    ann.next_question()
    assert server.next(None)[1]["result"] == {"roots": [two]}
    assert worked(server, ann) is puppet


# --- what auto makes of it


@pytest.mark.parametrize("bare", [True, False])
def test_a_server_that_asks_for_roots_is_shared_by_workspace_from_then_on(
    house: House, revision: str, bare: bool
) -> None:
    server = house.server()
    daemon = house.start()
    ann, bob = house.client(revision, "ann", bare=bare), house.client(revision, "bob", bare=bare)
    shared = worked(server, bob)
    (pid,) = house.pids()
    puppet, call = called(server, ann, id_ := act(ann))
    assert puppet is shared
    puppet.ask("r", "roots/list")
    if bare:
        assert "has not declared" in server.next(None)[1]["error"]["message"]
    else:
        _, id_ = asked(ann, id_)
        assert server.next(None)[1]["result"]["roots"] == [{"uri": "file:///home/ann", "name": "ann"}]
    finish(ann, id_, puppet, call, "done")
    assert house.mode() == "workspace"
    each_has_its_workspace(house, server, [ann, bob])
    until(lambda: is_gone(pid), "the process that was shared has ended")
    # It is remembered.
    assert daemon.stop() == 0
    house.scratch.start()
    assert house.mode() == "workspace"
    each_has_its_workspace(house, server, [house.client(revision, name, bare=bare) for name in ("ann", "bob")])


def each_has_its_workspace(house: House, server: PuppetServer, clients: list[Client]) -> None:
    lists = [isinstance(client, LegacyClient) and bool(client.capabilities) for client in clients]
    puppets = [worked(server, *pair) for pair in zip(clients, lists, strict=True)]
    assert puppets[0] is not puppets[1]
    for client, listed, puppet in zip(clients, lists, puppets, strict=True):
        expected = {"uri": f"file:///home/{client.name}", "name": client.name} if listed else root(house, client.name)
        assert told(server, puppet) == [expected]


def test_a_server_that_asks_for_roots_as_soon_as_it_is_greeted_has_them_from_the_second_call_on(
    house: House, revision: str
) -> None:
    server = house.serve()
    ann = house.client(revision, "ann", bare=True)
    id_ = act(ann)
    puppet, _ = server.next("notifications/initialized")
    puppet.ask("r", "roots/list")
    # It may have the call by then; if not, it is ended at once, and another has it.
    puppet, call = called(server, ann, id_)
    finish(ann, id_, puppet, call, "done")
    until(lambda: house.mode() == "workspace", "it is known what it wants")
    assert told(server, worked(server, ann)) == [root(house, "ann")]


def test_a_server_that_asks_for_roots_and_then_for_more_ends_with_a_process_per_client(house: House) -> None:
    server = house.serve()
    ann, bob = (house.client(NEWEST_LEGACY, name, "here", bare=True) for name in ("ann", "bob"))
    modes, puppets = [], []
    for method in ("roots/list", "sampling/createMessage", "roots/list"):
        puppets.append((worked(server, bob), worked(server, ann)))
        puppets[-1][1].ask("q", method)
        server.next(None)
        modes.append(house.mode())
    # The second question has it tried in the modern era first; it rises with the next call.
    assert modes == ["workspace", "workspace", "session"]
    assert [one is other for one, other in puppets] == [True, True, False]
