"""Who is told what has changed: each what it saw, or asked for, and once.

Subscriptions of modern clients: what is honoured, and what goes out on which of them.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hearth.errors import MessageError
from hearth.hub.bindings import Binding, LogLevels
from hearth.hub.calls import Call
from hearth.hub.catalog import Catalog
from hearth.hub.client_requests import ClientRequests
from hearth.hub.sessions import SEARCH, Session
from hearth.hub.subscriptions import KEY_LIMIT_BYTES, ListenStream, Subscriptions, keep_name
from hearth.mcp import capabilities, versions
from hearth.mcp.catalog import KINDS, PROMPTS, RESOURCES, TEMPLATES, TOOLS
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json
from unit.conversations import Recorded
from unit.hub.outlets import Kept
from unit.hub.stage import client, instance, offering, opened, server


class Stage:
    """Two servers that run, `a` and `b`, and what clients of theirs are told."""

    def __init__(self, era: str = versions.LEGACY, **lists: dict[str, list[object]]) -> None:
        self.servers: list[Server] = []
        self.instances: dict[str, Instance] = {}
        self.connections: dict[str, Recorded] = {}
        for name in ("a", "b"):
            of = server(name, era=era)
            offered = offering(name, era, **lists.get(name, {}))
            self.instances[name], self.connections[name] = instance(of, offered)
            of.catalogs.known[capabilities.FULL] = offered
            self.servers.append(of)
        self.catalogue = Catalog(lambda: self.servers)
        binding = Binding(ClientRequests("d"), LogLevels())
        self.tasks: set[asyncio.Task[None]] = set()
        self.subscriptions = Subscriptions(self.catalogue, binding, self)

    def spawn(self, work: Coroutine[Any, Any, None], call: Call | None = None) -> None:
        self.tasks.add(asyncio.create_task(work))

    async def settle(self) -> None:
        while self.tasks:
            await asyncio.gather(*self.tasks)
            self.tasks = {task for task in self.tasks if not task.done()}

    def offer(self, name: str, **lists: list[object]) -> None:
        """A server says that it has something else now."""
        of = next(of for of in self.servers if of.name == name)
        self.instances[name].catalog = of.catalogs.known[capabilities.FULL] = offering(name, **lists)
        self.catalogue.changed()

    def update(self, name: str, uri: str) -> None:
        of = next(of for of in self.servers if of.name == name)
        self.subscriptions.updated(self.instances[name], of, json.split(json.dumps({"uri": uri})))

    def listen(self, member: Session, id: bytes = b"1", replayed: bool = False, **wanted: object) -> None:
        call = opened(member, id, versions.MODERN, replayed=replayed)
        self.subscriptions.listen(call, json.split(json.dumps({"notifications": wanted})))

    async def subscribe(self, member: Session, uri: str, id: bytes = b"1") -> None:
        self.subscriptions.subscribe(opened(member, id), json.split(json.dumps({"uri": uri})))
        await self.settle()

    def unsubscribe(self, member: Session, uri: str, id: bytes = b"1") -> None:
        self.subscriptions.unsubscribe(opened(member, id), json.split(json.dumps({"uri": uri})))


def told(sink: Kept) -> list[str]:
    return [message["method"].removeprefix("notifications/") for message in sink.messages("notify")]


def asked(connection: Recorded) -> list[tuple[str, object]]:
    return [(item["method"].rpartition("/")[2], item["params"].get("uri")) for item in connection.sent]


# --- lists


async def test_who_saw_a_list_that_changed_is_told_once() -> None:
    stage = Stage(a={"tools": ["t"], "prompts": ["p"]})
    member, sink = client()
    content = stage.catalogue.view(member).content
    member.seen = {TOOLS: content[TOOLS], PROMPTS: content[PROMPTS]}
    stage.subscriptions.announce([member])
    assert told(sink) == []
    stage.offer("a", tools=["t", "u"], prompts=["p"])
    for _ in range(2):
        stage.subscriptions.announce([member])
    assert told(sink) == ["tools/list_changed"]


async def test_a_list_that_its_server_called_changed_is_told_of_although_it_is_equal() -> None:
    stage = Stage(a={"tools": ["t"], "prompts": ["p"]})
    member, sink = client()
    content = stage.catalogue.view(member).content
    member.seen = {TOOLS: content[TOOLS], PROMPTS: content[PROMPTS]}
    stage.subscriptions.announce([member], lambda session: [TOOLS])
    assert told(sink) == ["tools/list_changed"]
    # Different and called so: once.
    stage.offer("a", tools=["t", "u"], prompts=["p"])
    stage.subscriptions.announce([member], lambda session: [TOOLS])
    assert told(sink) == ["tools/list_changed"] * 2


async def test_who_searches_is_not_told_of_tools_that_it_is_not_shown() -> None:
    stage = Stage(a={"tools": ["t"], "prompts": ["p"]})
    member, sink = client()
    member.mode = SEARCH
    content = stage.catalogue.content(member)
    member.seen = {TOOLS: content[TOOLS], PROMPTS: content[PROMPTS]}
    stage.subscriptions.announce([member], lambda session: [TOOLS, PROMPTS])
    assert told(sink) == ["prompts/list_changed"]


async def test_who_never_saw_a_list_has_nothing_to_be_told() -> None:
    stage, (member, sink) = Stage(a={"tools": ["t"]}), client()
    stage.offer("a", tools=["u"])
    stage.subscriptions.announce([member])
    assert told(sink) == []


async def test_who_has_not_finished_the_handshake_is_not_told() -> None:
    stage, (member, sink) = Stage(), client()
    member.initialized = False
    stage.subscriptions.tell(member, [TOOLS])
    assert sink.said == []


async def test_lists_that_are_announced_together_are_announced_once() -> None:
    stage, (member, sink) = Stage(), client()
    stage.subscriptions.tell(member, [RESOURCES, TEMPLATES, TOOLS])
    assert told(sink) == ["resources/list_changed", "tools/list_changed"]


# --- modern clients


async def test_a_subscription_is_acknowledged_first_kept_and_told_of_changes() -> None:
    stage, (member, sink) = Stage(a={"tools": ["t"]}), client(versions.MODERN)
    stage.listen(member, b'"s"', toolsListChanged=True)
    assert [item[0] for item in sink.said] == ["finish", "tell"]
    assert (sink.kept, len(member.listens), member.open) == (['listen:"s"'], 1, {})
    assert member.seen.keys() == {TOOLS}
    stage.offer("a", tools=["u"])
    stage.subscriptions.announce([member])
    assert told(sink) == ["tools/list_changed"]


async def test_a_replayed_subscription_is_told_of_a_change_of_each_list_once_and_not_acknowledged() -> None:
    stage, (member, sink) = Stage(), client(versions.MODERN)
    stage.listen(member, replayed=True, toolsListChanged=True, resourcesListChanged=True)
    assert sink.heard("tell") == []
    assert sorted(told(sink)) == ["resources/list_changed", "tools/list_changed"]


@pytest.mark.parametrize("params", [{}, {"notifications": 7}, {"notifications": {"resourceSubscriptions": 7}}])
async def test_a_subscription_without_a_wish_is_bad_params_and_still_open_as_a_call(params: dict[str, object]) -> None:
    stage, (member, sink) = Stage(), client(versions.MODERN)
    call = opened(member, era=versions.MODERN)
    with pytest.raises(MessageError):
        stage.subscriptions.listen(call, json.split(json.dumps(params)))
    assert call.is_open
    assert (member.listens, sink.said) == ({}, [])


async def test_resources_of_several_servers_are_watched_for_one_subscription_until_it_ends() -> None:
    stage = Stage(a={"resources": ["r:1"]}, b={"resources": ["r:1"]})
    member, sink = client(versions.MODERN)
    stage.listen(member, b"5", resourceSubscriptions=["r:1", "hearth:b:r:1", "nobody:1"])
    await stage.settle()
    assert [asked(stage.connections[name]) for name in ("a", "b")] == [[("subscribe", "r:1")]] * 2
    for name in ("a", "b"):
        stage.update(name, "r:1")
    notices = sink.messages("notify")
    assert [notice["params"]["uri"] for notice in notices] == ["r:1", "hearth:b:r:1"]
    assert {notice["params"]["_meta"][versions.SUBSCRIPTION_ID_KEY] for notice in notices} == {5}
    stage.subscriptions.unlisten(member.listens.popitem()[1])
    assert [asked(stage.connections[name])[1:] for name in ("a", "b")] == [[("unsubscribe", "r:1")]] * 2


async def test_a_subscription_that_was_cancelled_before_its_server_was_found_watches_nothing() -> None:
    stage = Stage(a={"resources": ["r:1"]})
    member, _ = client(versions.MODERN)
    stage.listen(member, resourceSubscriptions=["r:1"])
    member.listens.clear()
    await stage.settle()
    assert not stage.instances["a"].subscriptions


# --- legacy clients


async def test_a_subscribed_resource_is_watched_kept_and_told_of_under_the_client_s_name_for_it() -> None:
    stage = Stage(a={"resources": ["r:1"]}, b={"resources": ["r:1"]})
    (member, sink), (other, others) = client(), client()
    await stage.subscribe(member, "hearth:b:r:1")
    await stage.subscribe(other, "r:1")
    assert sink.messages("answer") == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert sink.kept == ["subscribe:hearth:b:r:1"]
    assert [asked(stage.connections[name]) for name in ("a", "b")] == [[("subscribe", "r:1")]] * 2
    stage.update("b", "r:1")
    assert [notice["params"] for notice in sink.messages("notify")] == [{"uri": "hearth:b:r:1"}]
    assert others.heard("notify") == []


async def test_a_change_below_a_subscribed_resource_is_told_as_what_it_is() -> None:
    stage = Stage(a={"resources": ["file:///a"]})
    member, sink = client()
    await stage.subscribe(member, "file:///a")
    stage.update("a", "file:///a/b")
    stage.update("a", "file:///other")
    assert [notice["params"]["uri"] for notice in sink.messages("notify")] == ["file:///a/b"]


async def test_an_unsubscribed_resource_is_neither_watched_nor_kept() -> None:
    stage = Stage(a={"resources": ["r:1"]})
    (member, sink), (other, others) = client(), client()
    for one in (member, other):
        await stage.subscribe(one, "r:1")
    stage.unsubscribe(member, "r:1", b"2")
    assert sink.dropped == ["subscribe:r:1"]
    stage.update("a", "r:1")
    assert (len(sink.heard("notify")), len(others.heard("notify"))) == (0, 1)
    stage.unsubscribe(other, "r:1", b"2")
    assert asked(stage.connections["a"]) == [("subscribe", "r:1"), ("unsubscribe", "r:1")]


async def test_the_same_resource_of_another_server_stays_subscribed_to() -> None:
    stage = Stage(a={"resources": ["r:1"]}, b={"resources": ["r:1"]})
    member, sink = client()
    await stage.subscribe(member, "r:1", b"1")
    await stage.subscribe(member, "hearth:b:r:1", b"2")
    stage.unsubscribe(member, "r:1", b"3")
    for name in ("a", "b"):
        stage.update(name, "r:1")
    assert [notice["params"]["uri"] for notice in sink.messages("notify")] == ["hearth:b:r:1"]


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_who_waits_for_what_a_server_tells_follows_it_to_its_next_instance(era: str) -> None:
    stage = Stage(a={"resources": ["r:1"]}, b={"resources": ["r:2"]})
    member, _ = client(era)
    if era == versions.LEGACY:
        await stage.subscribe(member, "r:1")
    else:
        stage.listen(member, resourceSubscriptions=["r:1"])
        await stage.settle()
    successors = {}
    for of in stage.servers:
        of.instances.clear()
        successors[of.name], _ = instance(of, offering(of.name, resources=["r:1"]))
        stage.subscriptions.follow(member, of)
    await stage.settle()
    assert [bool(successors[name].subscriptions) for name in ("a", "b")] == [True, False]
    assert [bool(successors[name].holders) for name in ("a", "b")] == [True, False]


async def test_what_was_never_subscribed_to_is_unsubscribed_without_ado() -> None:
    stage, (member, sink) = Stage(), client()
    stage.unsubscribe(member, "r:1")
    assert sink.messages("answer")[0]["result"] == {}


async def test_a_subscription_that_is_withdrawn_before_it_was_made_is_not_made() -> None:
    stage = Stage(a={"resources": ["r:1"]})
    member, sink = client()
    stage.subscriptions.subscribe(opened(member, b"1"), json.split(b'{"uri":"r:1"}'))
    stage.unsubscribe(member, "r:1", b"2")
    await stage.settle()
    assert len(sink.messages("answer")) == 2
    assert sink.kept == []
    assert not stage.instances["a"].subscriptions


async def test_a_resource_that_nobody_has_is_an_error_and_not_kept() -> None:
    stage, (member, sink) = Stage(), client()
    await stage.subscribe(member, "nobody:1")
    (answer,) = sink.messages("answer")
    assert answer["error"]["code"] == -32002
    assert "nobody:1" in answer["error"]["message"]
    assert (sink.kept, member.subscriptions) == ([], {})


@pytest.mark.parametrize("params", [{}, {"uri": 7}])
async def test_a_subscription_to_no_uri_is_bad_params(params: dict[str, object]) -> None:
    stage, (member, _) = Stage(), client()
    for act in (stage.subscriptions.subscribe, stage.subscriptions.unsubscribe):
        with pytest.raises(MessageError, match=r"params.uri"):
            act(opened(member), json.split(json.dumps(params)))


async def test_an_update_of_nothing_is_told_to_nobody() -> None:
    stage = Stage(a={"resources": ["r:1"]})
    member, sink = client()
    await stage.subscribe(member, "r:1")
    stage.subscriptions.updated(stage.instances["a"], stage.servers[0], {})
    assert sink.heard("notify") == []


async def test_a_server_without_subscriptions_is_named() -> None:
    stage = Stage(a={"resources": ["r:1"]})
    stage.instances["a"].catalog = offering("a", declared=b'{"resources":{}}', resources=["r:1"])
    member, sink = client()
    await stage.subscribe(member, "r:1")
    (answer,) = sink.messages("answer")
    assert (answer["error"]["code"], "'a'" in answer["error"]["message"]) == (-32601, True)
    assert member.subscriptions == {}


ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


def listening(id: bytes = b'"s1"', **wanted: object) -> tuple[ListenStream, list[dict[str, object]]]:
    """A subscription, and what its client hears, once it does."""
    member, sink = client(versions.MODERN)
    listen = ListenStream(member, 0, id, json.split(json.dumps(wanted)))
    heard: list[dict[str, object]] = []
    sink.notify = lambda payload, topic=None, about=None: heard.append(json.loads(payload) | {"topic": topic})  # type: ignore[method-assign]
    sink.tell = lambda payload, about=None: heard.append(json.loads(payload))  # type: ignore[method-assign]
    return listen, heard


def test_everything_is_tagged_with_the_subscription_s_id() -> None:
    listen, heard = listening(**ALL)
    listen.acknowledge()
    listen.changed(TOOLS)
    listen.updated("r:1", json.split(b'{"uri":"own:1","_meta":{"io.modelcontextprotocol/subscriptionId":7,"k":1}}'))
    listen.complete()
    assert [message.get("method") for message in heard] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        "notifications/resources/updated",
        None,
    ]
    metas = [(message.get("params") or message["result"])["_meta"] for message in heard]  # type: ignore[index]
    assert [meta[versions.SUBSCRIPTION_ID_KEY] for meta in metas] == ["s1"] * 4
    assert heard[2]["params"] == {"uri": "r:1", "_meta": {"k": 1, versions.SUBSCRIPTION_ID_KEY: "s1"}}
    assert (heard[3]["id"], heard[3]["result"]["resultType"]) == ("s1", "complete")  # type: ignore[index]


@pytest.mark.parametrize(
    ("wanted", "honoured"),
    [
        (ALL, ALL),
        ({}, {}),
        ({"toolsListChanged": False, "promptsListChanged": 1, "madeUp": True}, {}),
        (
            {"resourceSubscriptions": ["r:2", "r:1", 7, "r:2"], "toolsListChanged": True},
            {"toolsListChanged": True, "resourceSubscriptions": ["r:2", "r:1"]},
        ),
        ({"resourceSubscriptions": []}, {}),
    ],
)
def test_what_is_known_and_wanted_is_honoured(wanted: dict[str, object], honoured: dict[str, object]) -> None:
    listen, heard = listening(**wanted)
    listen.acknowledge()
    assert heard[0]["params"]["notifications"] == honoured  # type: ignore[index]


@pytest.mark.parametrize("uris", [7, "r:1", {"r:1": True}])
def test_resources_that_are_no_list_are_bad_params(uris: object) -> None:
    with pytest.raises(MessageError):
        listening(resourceSubscriptions=uris)


def test_only_changes_that_were_wanted_are_told() -> None:
    listen, heard = listening(resourcesListChanged=True)
    listen.is_open = True
    for kind in KINDS:
        listen.changed(kind)
    assert {message["method"] for message in heard} == {"notifications/resources/list_changed"}
    assert [listen.wants(kind) for kind in (TOOLS, PROMPTS, RESOURCES, TEMPLATES)] == [False, False, True, True]


def test_notices_of_different_subscriptions_and_resources_are_different_topics() -> None:
    topics = []
    for id in (b"1", b'"1"'):
        listen, heard = listening(id, **ALL)
        listen.is_open = True
        listen.changed(TOOLS)
        listen.changed(PROMPTS)
        listen.updated("r:1", {})
        listen.updated("r:2", {})
        topics += [message["topic"] for message in heard]
    assert len(set(topics)) == len(topics) == 8


def test_a_notice_before_the_acknowledgement_waits_for_it() -> None:
    listen, heard = listening(toolsListChanged=True, resourceSubscriptions=["r:1"])
    listen.updated("r:1", {})
    listen.changed(TOOLS)
    listen.changed(TOOLS)
    assert heard == []
    listen.acknowledge()
    assert [message["method"] for message in heard] == [
        "notifications/subscriptions/acknowledged",
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    ]


def test_the_key_of_a_subscription_fits_into_a_header_whatever_its_client_calls_it() -> None:
    keys = [listening(b'"%b"' % (b"x" * size))[0].keep for size in (1, 5000, 5001)]
    assert all(len(key) < KEY_LIMIT_BYTES + 20 for key in keys)
    assert len(set(keys)) == 3


def test_what_is_kept_under_a_name_is_of_one_kind() -> None:
    assert keep_name("listen", b"1") != keep_name("subscribe", b"1")
    assert keep_name("listen", b"\xff") == "listen:\ufffd"
