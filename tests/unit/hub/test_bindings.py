"""Which instance serves which session: held while it is used, let go, and chosen anew when folders change.

How verbose servers are, and who hears what.
"""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from hearth.errors import UpstreamError
from hearth.hub import bindings as module
from hearth.hub.bindings import Binding, LogLevels, lists_roots, most_verbose, reaches_level
from hearth.hub.client_requests import ClientRequests
from hearth.hub.sessions import Session
from hearth.hub.subscriptions import ListenStream
from hearth.mcp import capabilities, isolation, versions
from hearth.upstreams import client_context
from hearth.upstreams.instance import Instance
from hearth.wire import json
from unit.conversations import Recorded, dual_script, legacy_script, until
from unit.hub.outlets import Kept
from unit.hub.stage import client, instance, offering, sent, server
from unit.staged_servers import StagedServer

ROOTS = b'{"roots":{"listChanged":true}}'
HERE = {"uri": "file:///here"}


class Stage:
    """Bindings to one server."""

    def __init__(self, folder: Path, script: dict[str, object] | None = None, **spec: object) -> None:
        self.server = StagedServer(folder / "learned.json", script, **spec)
        self.questions = ClientRequests("d")
        self.binding = Binding(self.questions, LogLevels())

    async def bind(self, member: Session, era: str = versions.LEGACY, declared: bytes | None = None) -> Instance:
        return await self.binding.bind(member, era, self.server, declared)

    async def answer_roots(self, member: Session, sink: Kept, count: int, answer: dict[str, Any]) -> None:
        """Let the client answer that question for its roots."""
        await until(lambda: len(sink.heard("ask")) == count, "it is asked")
        question = sink.messages("ask")[-1]
        assert question["method"] == "roots/list"
        self.questions.receive_answer(
            member, json.parse(json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}))
        )


# --- holding


async def test_a_session_holds_what_it_uses_until_it_leaves(tmp_path: Path) -> None:
    stage, (member, _) = Stage(tmp_path), client()
    one = await stage.bind(member)
    assert await stage.bind(member) is one
    assert member.bound[versions.LEGACY] == {stage.server: one}
    assert (one.holders, one.ever) == ({member}, {member.id})
    stage.binding.unbind(member)
    assert (one.holders, one.ever, member.bound[versions.LEGACY]) == (set(), {member.id}, {})


async def test_a_session_that_uses_both_eras_holds_an_instance_of_each(tmp_path: Path) -> None:
    stage, (member, _) = Stage(tmp_path, dual_script(), era="client"), client()
    old, new = await stage.bind(member), await stage.bind(member, versions.MODERN)
    assert (old.era, new.era) == (versions.LEGACY, versions.MODERN)
    stage.binding.unbind(member)
    assert old.holders == new.holders == set()


async def test_an_instance_that_serves_both_eras_is_held_until_neither_uses_it(tmp_path: Path) -> None:
    stage, (member, _) = Stage(tmp_path), client()
    one = await stage.bind(member)
    assert await stage.bind(member, versions.MODERN) is one
    del member.bound[versions.MODERN][stage.server]
    stage.binding._let_go(member, stage.server, one)
    assert one.holders == {member}
    stage.binding.forget(member, {stage.server})
    assert one.holders == set()


async def test_only_the_servers_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    stage, other, (member, _) = Stage(tmp_path), Stage(tmp_path), client()
    gone, stays = await stage.bind(member), await other.bind(member)
    stage.binding.forget(member, {stage.server})
    assert member.bound[versions.LEGACY] == {other.server: stays}
    assert (gone.holders, stays.holders) == (set(), {member})


async def test_a_session_that_left_while_its_server_was_started_holds_nothing(tmp_path: Path) -> None:
    stage, (member, _) = Stage(tmp_path), client()
    member.left = True
    with pytest.raises(UpstreamError, match="has left"):
        await stage.bind(member)
    (one,) = stage.server.instances.values()
    assert (one.holders, one.ever) == (set(), set())


async def test_a_narrower_way_of_sharing_lets_the_former_instance_go(tmp_path: Path) -> None:
    stage, (member, _), (other, _) = Stage(tmp_path), client(), client()
    former = await stage.bind(member)
    await stage.bind(other)
    stage.server.learn(isolation.QUESTION)
    mine, theirs = await stage.bind(member), await stage.bind(other)
    assert len({former, mine, theirs}) == 3
    assert (former.holders, mine.holders, theirs.holders) == (set(), {member}, {other})
    # Nobody else has ever been there: what it says of its own accord is this session's.
    assert mine.ever == {member.id}


async def test_an_instance_of_one_legacy_client_knows_what_it_declared_and_a_modern_one_may_declare_more(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, isolation="session")
    member, _ = client(versions.MODERN, declared=b'{"roots":{}}')
    one = await stage.bind(member, versions.MODERN, b'{"sampling":{}}')
    assert one.capabilities == capabilities.FULL
    other, _ = client(declared=b'{"roots":{}}')
    assert (await stage.bind(other)).capabilities == b'{"roots":{}}'


# --- what is watched, and how verbose a server is


async def test_what_a_session_subscribed_to_is_watched_on_whichever_instance_it_uses(tmp_path: Path) -> None:
    stage, (member, _) = Stage(tmp_path), client()
    member.subscriptions = {"hearth:s:r:1": ("s", "r:1"), "r:2": ("other", "r:2")}
    listen = ListenStream(member, 0, b"9", {})
    listen.sources = {"r:3": ("s", "r:3"), "r:4": ("other", "r:4")}
    member.listens[9] = listen
    former = await stage.bind(member)
    assert [former.subscriptions.holders(uri) for uri in ("r:1", "r:2", "r:3", "r:4")] == [
        [(member, "r:1")],
        [],
        [],
        [],
    ]
    await stage.bind(member, versions.MODERN)
    assert former.subscriptions.holders("r:3") == [(listen, "r:3")]
    stage.server.learn(isolation.QUESTION)
    successor = await stage.bind(member)
    await stage.bind(member, versions.MODERN)
    assert not former.subscriptions
    assert [successor.subscriptions.holders(uri) for uri in ("r:1", "r:3")] == [[(member, "r:1")], [(listen, "r:3")]]


async def test_a_server_follows_the_levels_of_those_who_come_and_go(tmp_path: Path) -> None:
    stage, (member, _), (other, _) = Stage(tmp_path), client(), client()
    member.log_level, other.log_level = "debug", "error"
    one = await stage.bind(other)
    await stage.bind(member)
    stage.binding.unbind(member)
    levels = [
        request["params"]["level"]
        for request in stage.server.connections[0].sent
        if request["method"] == "logging/setLevel"
    ]
    assert (levels, one.log_level) == (["error", "debug", "error"], "error")


# --- roots


@pytest.mark.parametrize(
    ("era", "initialized", "declared", "lists"),
    [
        (versions.LEGACY, True, ROOTS, True),
        (versions.LEGACY, False, ROOTS, False),
        (versions.LEGACY, True, b"{}", False),
        (versions.MODERN, True, ROOTS, False),
    ],
)
def test_a_client_is_asked_for_roots_by_a_request_only_if_it_can_be(
    era: str, initialized: bool, declared: bytes, lists: bool
) -> None:
    member, _ = client(era, declared=declared)
    member.initialized = initialized
    assert lists_roots(member) is lists


async def test_clients_with_the_same_roots_share_and_are_asked_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, isolation="workspace")
    found = []
    for cwd, root in (("/1", HERE), ("/2", HERE), ("/3", {"uri": "file:///there"})):
        member, sink = client(declared=ROOTS)
        member.cwd = cwd
        binding = asyncio.create_task(stage.bind(member))
        await stage.answer_roots(member, sink, 1, {"result": {"roots": [root]}})
        found.append(await binding)
        assert await stage.bind(member) is found[-1]
        assert len(sink.heard("ask")) == 1
    assert found[0] is found[1] is not found[2]
    assert json.loads(found[0].client_context.root_list()) == {"roots": [HERE]}


@pytest.mark.parametrize("answer", [{"error": {"code": -32603, "message": "no"}}, {"result": {"roots": 7}}, None])
async def test_a_client_that_hides_its_roots_works_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, object] | None
) -> None:
    monkeypatch.setattr(module, "ROOTS_SECONDS", 60.0 if answer else 0.01)
    stage = Stage(tmp_path, isolation="workspace")
    member, sink = client(declared=ROOTS)
    member.cwd = "/here"
    binding = asyncio.create_task(stage.bind(member))
    if answer:
        await stage.answer_roots(member, sink, 1, answer)
    one = await binding
    assert json.loads(one.client_context.root_list()) == {"roots": [{"uri": "file:///here", "name": "here"}]}
    assert await stage.bind(member) is one
    assert len(sink.heard("ask")) == 1


async def test_roots_are_of_no_interest_where_they_decide_nothing(tmp_path: Path) -> None:
    for mode in ("shared", "session"):
        member, sink = client(declared=ROOTS)
        await Stage(tmp_path, isolation=mode).bind(member)
        assert sink.said == []


async def test_a_server_that_turns_out_to_want_roots_while_it_is_started_is_started_for_the_place(
    tmp_path: Path,
) -> None:
    script = legacy_script()
    tools = script.pop("tools/list")
    stage = Stage(tmp_path, script)
    member, sink = client(declared=ROOTS)
    binding = asyncio.create_task(stage.bind(member))
    connections = stage.server.connections
    await until(lambda: connections and "tools/list" in connections[0].methods(), "it is started")
    stage.server.learn(isolation.ROOTS)
    script["tools/list"] = tools
    number = next(item["id"] for item in connections[0].sent if item["method"] == "tools/list")
    connections[0].give(number, tools)
    await stage.answer_roots(member, sink, 1, {"result": {"roots": [HERE]}})
    one = await binding
    assert (one.mode, json.loads(one.client_context.root_list())) == ("workspace", {"roots": [HERE]})


async def test_a_client_that_moves_belongs_to_another_workspace(tmp_path: Path) -> None:
    stage = Stage(tmp_path, isolation="workspace")
    member, sink = client(declared=ROOTS)
    found = []
    for count, uri in enumerate(("file:///a", "file:///b"), 1):
        binding = asyncio.create_task(stage.bind(member))
        await stage.answer_roots(member, sink, count, {"result": {"roots": [{"uri": uri}]}})
        found.append(await binding)
        stage.binding.roots_changed(member)
        assert member.bound[versions.LEGACY] == {}
        assert found[-1].holders == set()
    assert found[0] is not found[1]


@pytest.mark.parametrize(("mode", "told"), [("session", True), ("shared", False)])
async def test_a_server_of_one_session_is_told_that_its_client_has_moved(tmp_path: Path, mode: str, told: bool) -> None:
    stage = Stage(tmp_path, isolation=mode)
    member, _ = client(declared=ROOTS)
    one = await stage.bind(member)
    stage.binding.roots_changed(member)
    methods = [item["method"] for item in stage.server.connections[0].notified]
    assert ("notifications/roots/list_changed" in methods) is told
    assert member.bound[versions.LEGACY] == {stage.server: one}


async def test_folders_on_a_disk_that_does_not_answer_count_as_they_are_written_and_are_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, looks = threading.Event(), []

    def locate(*named: object) -> client_context.Location:
        looks.append(named)
        answers.wait()
        return client_context.Location((), None)

    monkeypatch.setattr(client_context, "locate", locate)
    monkeypatch.setattr(module, "LOCATE_SECONDS", 0.05)
    try:
        stage, (member, _) = Stage(tmp_path, isolation="workspace"), client()
        member.cwd = "/on/a/network"
        one = await stage.bind(member)
        assert await stage.bind(member) is one
        assert (one.client_context.workspace, one.client_context.folder, len(looks)) == (member.cwd, member.cwd, 1)
    finally:
        answers.set()


@pytest.mark.parametrize(
    ("level", "threshold", "heard"),
    [
        ("debug", None, True),
        ("made up", None, True),
        (None, None, True),
        ("debug", "debug", True),
        ("info", "debug", True),
        ("debug", "info", False),
        ("emergency", "alert", True),
        ("alert", "emergency", False),
        # By rank, not by the alphabet.
        ("notice", "warning", False),
        ("error", "warning", True),
        ("made up", "debug", False),
        (None, "debug", False),
        ("error", "made up", False),
    ],
)
def test_a_message_is_heard_at_or_above_the_threshold(level: str | None, threshold: str | None, heard: bool) -> None:
    assert reaches_level(level, threshold) is heard


def test_the_most_verbose_is_the_lowest_that_was_set() -> None:
    assert most_verbose(["error", None, "notice", "made up"]) == "notice"
    assert most_verbose([None, "made up"]) is most_verbose([]) is None


def staged(declared: bytes = b'{"logging":{}}', era: str = versions.LEGACY) -> tuple[Instance, Recorded]:
    return instance(server(), offering(declared=declared, era=era))


def hold(on: Instance, level: str | None = None, era: str = versions.LEGACY) -> None:
    member, _ = client(era)
    member.log_level = level
    on.holders.add(member)


def levels(connection: Recorded) -> list[str]:
    return [request["params"]["level"] for request in connection.sent if request["method"] == "logging/setLevel"]


def test_a_server_is_as_verbose_as_the_most_curious_of_those_who_use_it() -> None:
    on, connection = staged()
    for level in ("error", "debug", "warning"):
        hold(on, level)
        LogLevels().sync(on)
    assert levels(connection) == ["error", "debug"]
    on.holders.clear()
    hold(on, "warning")
    LogLevels().sync(on)
    assert levels(connection)[2:] == ["warning"]


def test_a_server_is_told_nothing_as_long_as_nobody_has_set_a_level() -> None:
    on, connection = staged()
    hold(on)
    hold(on, None, versions.MODERN)
    LogLevels().sync(on)
    assert connection.sent == []


def test_one_client_s_wish_for_silence_does_not_silence_another_that_set_nothing() -> None:
    on, connection = staged()
    hold(on)
    hold(on, "emergency")
    LogLevels().sync(on)
    assert levels(connection) == ["info"]


def test_a_modern_client_that_names_no_level_wants_nothing() -> None:
    on, connection = staged()
    hold(on, None, versions.MODERN)
    hold(on, "error")
    LogLevels().sync(on)
    assert levels(connection) == ["error"]


def test_a_request_that_names_a_level_makes_the_server_more_verbose_and_never_quieter() -> None:
    on, connection = staged()
    hold(on, "warning")
    LogLevels().sync(on)
    for wanted in ("error", "warning", "debug", "info"):
        LogLevels().sync(on, wanted)
    assert levels(connection) == ["warning", "debug"]


def test_a_request_s_level_is_forgotten_when_those_who_use_the_server_change() -> None:
    on, connection = staged()
    LogLevels().sync(on, "debug")
    hold(on, "error")
    LogLevels().sync(on)
    assert levels(connection) == ["debug", "error"]


def test_a_retry_that_names_a_level_counts_like_any_request() -> None:
    on, connection = staged()
    member, _ = client(versions.MODERN)
    of = server()
    LogLevels().attached(sent(member, of, on))
    assert levels(connection) == []
    LogLevels().attached(sent(member, of, on, b"2", meta={versions.LOG_LEVEL_KEY: "notice"}))
    assert levels(connection) == ["notice"]


@pytest.mark.parametrize(
    ("declared", "era"), [(b'{"tools":{}}', versions.LEGACY), (b'{"logging":{}}', versions.MODERN)]
)
def test_a_server_without_levels_and_one_that_is_told_with_every_request_are_left_alone(
    declared: bytes, era: str
) -> None:
    on, connection = staged(declared, era)
    hold(on, "debug")
    LogLevels().sync(on)
    LogLevels().sync(on, "debug")
    assert connection.sent == []


def test_a_level_that_could_not_be_set_is_tried_again() -> None:
    on, connection = staged()
    hold(on, "debug")
    connection.broken = True
    LogLevels().sync(on)
    connection.broken = False
    LogLevels().sync(on)
    LogLevels().sync(on)
    assert levels(connection) == ["debug"]
