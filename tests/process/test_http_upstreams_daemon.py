"""A real daemon with servers behind urls: listed, called, asked by, expired, restarted, in both eras of clients."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from support.clients import LinesClient, Message, modern, text_of
from support.daemon import Scratch
from support.kernel import BOUND_SECONDS, until
from support.sites.legacy import LegacySite
from support.sites.modern import ModernSite
from support.sites.old import OldSite
from support.sites.web import Site

ELICITING = {"elicitation": {"form": {}}}
KINDS: dict[str, Callable[[], Site]] = {
    "legacy": LegacySite,
    "json": lambda: LegacySite(streams=False),
    "modern": ModernSite,
    "both": lambda: ModernSite(dual=True),
    "old": OldSite,
}


@pytest.fixture
def sites() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def serve(scratch: Scratch, *sites: Site, **keys: object) -> None:
    """A daemon whose config has these servers, called `far`, `far1`, …"""
    names = ["far", *(f"far{number}" for number in range(1, len(sites)))]
    scratch.serve({name: {"url": site.url, **keys} for name, site in zip(names, sites, strict=True)})


def legacy(scratch: Scratch, capabilities: Message | None = None) -> LinesClient:
    return scratch.lines().initialized(capabilities=capabilities)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_is_listed_and_called_by_clients_of_both_eras(scratch: Scratch, sites: ExitStack, kind: str) -> None:
    serve(scratch, sites.enter_context(KINDS[kind]()))
    client, other = legacy(scratch), scratch.lines()
    assert "far__echo" in client.tools()
    assert "far__echo" in [item["name"] for item in other.ask("tools/list", modern())["result"]["tools"]]
    assert text_of(client.call("far__echo", text="hello")) == "hello"
    assert text_of(other.ask("tools/call", modern(name="far__echo", arguments={"text": "too"}))) == "too"


@pytest.mark.parametrize("kind", ["modern", "both"])
def test_arguments_go_into_headers_whatever_the_clients_era(scratch: Scratch, sites: ExitStack, kind: str) -> None:
    serve(scratch, sites.enter_context(KINDS[kind]()), era="modern")
    client, other = legacy(scratch), scratch.lines()
    assert text_of(client.call("far__locate", region="Zürich")) == "Zürich"
    assert text_of(other.ask("tools/call", modern(name="far__locate", arguments={"region": "x"}))) == "x"


def test_a_server_that_is_down_costs_nobody_else_anything(scratch: Scratch, sites: ExitStack) -> None:
    down, up = sites.enter_context(LegacySite()), sites.enter_context(LegacySite())
    down.close()
    serve(scratch, down, up)
    client = legacy(scratch)
    assert [name for name in client.tools() if name.endswith("__echo")] == ["far1__echo"]
    assert text_of(client.call("far1__echo", text="up")) == "up"
    assert "Connection refused" in scratch.upstream("far")["error"]


@pytest.mark.parametrize("kind", ["legacy", "json"])
def test_an_expired_session_is_noticed_by_nobody(scratch: Scratch, sites: ExitStack, kind: str) -> None:
    site = sites.enter_context(KINDS[kind]())
    assert isinstance(site, LegacySite)
    serve(scratch, site)
    client = legacy(scratch)
    assert text_of(client.call("far__echo", text="1")) == "1"
    for turn in ("2", "3"):
        site.expire()
        assert text_of(client.call("far__echo", text=turn)) == turn
    assert len(site.seen("initialize")) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_was_restarted_is_used_again(scratch: Scratch, sites: ExitStack, kind: str) -> None:
    site = sites.enter_context(KINDS[kind]())
    serve(scratch, site)
    client = legacy(scratch)
    assert text_of(client.call("far__echo", text="x")) == "x"
    site.close()
    if isinstance(site, LegacySite):
        site.expire()
    # One that has been seen to be gone is tried again for a while before the call is refused.
    client.stream.socket.settimeout(3 * BOUND_SECONDS)
    assert "'far'" in client.call("far__echo", text="x")["error"]["message"]
    site.open()
    until(lambda: "result" in client.call("far__echo", text="x"), "it answers again", 3 * BOUND_SECONDS)


def test_a_question_reaches_the_client_whose_call_caused_it(scratch: Scratch, sites: ExitStack) -> None:
    serve(scratch, sites.enter_context(LegacySite()), isolation="shared")
    clients = [legacy(scratch, ELICITING) for _ in range(3)]
    calls = [client.begin_call("far__ask") for client in clients]
    questions = [client.next_called("elicitation/create") for client in clients]
    for number, (client, question) in enumerate(zip(clients, questions, strict=True)):
        result = {"action": "accept", "content": {"name": f"client {number}"}}
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
    answers = [text_of(client.answer_to(call)) for client, call in zip(clients, calls, strict=True)]
    assert answers == ["hello client 0", "hello client 1", "hello client 2"]


def test_progress_and_logs_reach_the_client_whose_call_caused_them(scratch: Scratch, sites: ExitStack) -> None:
    serve(scratch, sites.enter_context(LegacySite()), isolation="shared")
    clients = [legacy(scratch) for _ in range(3)]
    calls = [client.begin_call("far__report", meta={"progressToken": "mine"}) for client in clients]
    for client, call in zip(clients, calls, strict=True):
        assert text_of(client.answer_to(call)) == "reported"
        assert client.next_called("notifications/progress")["params"]["progressToken"] == "mine"
        assert client.next_called("notifications/message")["params"]["data"] == "at it"
        assert client.aside == []


def test_cancelling_reaches_the_server(scratch: Scratch, sites: ExitStack) -> None:
    old_era, new_era = sites.enter_context(LegacySite()), sites.enter_context(ModernSite())
    serve(scratch, old_era, new_era)
    client = legacy(scratch)
    client.tools()
    id = client.begin_call("far__hang")
    client.next_called("notifications/message")
    client.notify("notifications/cancelled", {"requestId": id})
    until(lambda: old_era.withdrawn, "the server is told")

    other = scratch.lines()
    other.ask("tools/list", modern())
    id = other.begin("tools/call", modern(name="far1__hang", arguments={}))
    until(lambda: new_era.seen("tools/call"), "the call is under way")
    other.notify("notifications/cancelled", modern(requestId=id))
    until(lambda: new_era.closed, "the stream is closed")


@pytest.mark.parametrize("kind", ["legacy", "modern"])
def test_a_changed_list_reaches_the_clients(scratch: Scratch, sites: ExitStack, kind: str) -> None:
    site = sites.enter_context(KINDS[kind]())
    assert isinstance(site, LegacySite)
    serve(scratch, site)
    client = legacy(scratch)
    assert "far__new" not in client.tools()
    until(lambda: site.listens if isinstance(site, ModernSite) else site.listening, "it listens")
    site.names.append("new")
    if isinstance(site, ModernSite):
        site.tell("notifications/tools/list_changed")
    else:
        site.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    client.next_called("notifications/tools/list_changed")
    assert "far__new" in client.tools()


def test_a_header_that_changed_is_learned_and_no_client_notices(scratch: Scratch, sites: ExitStack) -> None:
    site = sites.enter_context(ModernSite())
    serve(scratch, site)
    client = scratch.lines()
    client.ask("tools/list", modern())
    assert text_of(client.ask("tools/call", modern(name="far__locate", arguments={"region": "a"}))) == "a"
    site.header = "Place"
    assert text_of(client.ask("tools/call", modern(name="far__locate", arguments={"region": "b"}))) == "b"


def test_secrets_go_to_the_server_and_nowhere_else(scratch: Scratch, sites: ExitStack) -> None:
    site = sites.enter_context(LegacySite())
    scratch.configure({"far": {"url": site.url, "headers": {"Authorization": "Bearer ${TOKEN}"}}}, log_level="debug")
    scratch.start(TOKEN="hunter2")
    assert text_of(legacy(scratch).call("far__echo", text="x")) == "x"
    assert {request.headers["authorization"] for request in site.requests} == {"Bearer hunter2"}
    assert "ready" in scratch.logged()
    assert "hunter2" not in scratch.logged()
    assert "session-1" not in scratch.logged()


def test_the_daemons_end_ends_the_session(scratch: Scratch, sites: ExitStack) -> None:
    site = sites.enter_context(LegacySite())
    daemon = scratch.serve({"far": {"url": site.url}})
    assert text_of(legacy(scratch).call("far__echo", text="x")) == "x"
    assert daemon.stop() == 0
    assert site.deleted == ["session-1"]


def test_a_server_on_a_unix_socket_is_reached(scratch: Scratch, sites: ExitStack) -> None:
    serve(scratch, sites.enter_context(LegacySite(unix=str(scratch.home / "far.sock"))))
    assert text_of(legacy(scratch).call("far__echo", text="x")) == "x"
