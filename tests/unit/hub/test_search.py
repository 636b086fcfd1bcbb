"""Clients that search: what they are offered, what they find, and calls that go through `call_tool`."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hearth.config import Config
from hearth.hub import search
from hearth.hub.sessions import AUTO, FULL, SEARCH, Session
from hearth.mcp import versions
from hearth.mcp.catalog import TOOLS
from hearth.mcp.search import search_tools
from hearth.mcp.search.tool_index import SearchUnavailable, ToolIndex
from hearth.wire import json
from unit.conversations import until
from unit.hub.outlets import Kept
from unit.hub.whole_hub import ENVELOPE, Stage, answer, offering

CHANGED = "notifications/tools/list_changed"
FIVE = ["find_tools", "describe_tools", "call_tool_read", "call_tool_write", "call_tool_destructive"]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ_ONLY = {"readOnlyHint": True}
FILES = offering(
    tools=[
        {
            "name": "read_file",
            "description": "Read a file.",
            "inputSchema": SCHEMA,
            "annotations": {"readOnlyHint": True},
        },
        {"name": "write_file", "description": "Write a file.", "inputSchema": SCHEMA},
    ],
    prompts=[{"name": "p"}],
)
MAIL = offering(tools=[{"name": "send_mail", "description": "Send a letter.", "inputSchema": {"type": "object"}}])
NAMED_ALIKE = offering(tools=[{"name": name, "inputSchema": {"type": "object"}} for name in ("find_tools", "other")])


def params(era: str, **given: object) -> dict[str, object]:
    return {**given, "_meta": ENVELOPE} if era == versions.MODERN else given


async def listed(stage: Stage, member: Session, sink: Kept) -> list[str]:
    count = len(sink.heard("answer"))
    stage.ask(member, "tools/list", id=f"list {count}")
    return [tool["name"] for tool in (await answer(sink, count + 1))["result"]["tools"]]


async def said(stage: Stage, member: Session, sink: Kept, tool: str, **arguments: object) -> dict[str, Any]:
    count = len(sink.heard("answer"))
    stage.ask(member, "tools/call", id=f"call {count}", name=tool, arguments=arguments)
    found: dict[str, Any] = (await answer(sink, count + 1))["result"]
    return found


def text(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"])


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, files=FILES)


def test_nothing_of_it_is_loaded_where_nobody_searches() -> None:
    code = "import sys, hearth.hub.hub; print([name for name in sys.modules if 'search' in name or 'sqlite' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- which list


async def test_a_client_that_searches_is_listed_three_tools_and_nobody_is_started_for_it(stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    assert await listed(stage, member, sink) == FIVE
    assert stage.started() == []


async def test_prompts_are_listed_as_ever(stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    stage.ask(member, "prompts/list")
    assert [prompt["name"] for prompt in (await answer(sink))["result"]["prompts"]] == ["files__p"]


@pytest.mark.parametrize(("threshold", "searches"), [(1, True), (2, False)])
async def test_with_auto_the_number_of_tools_decides(tmp_path: Path, threshold: int, searches: bool) -> None:
    stage = Stage(tmp_path, config=Config(search_threshold=threshold), files=FILES)
    member, sink = stage.client(mode=AUTO)
    assert (await listed(stage, member, sink) == FIVE) == searches


async def test_a_client_that_does_not_say_has_the_mode_of_the_config_also_after_a_reload(stage: Stage) -> None:
    silent, sink = stage.client()
    firm, other = stage.client(mode=FULL)
    assert (silent.mode, firm.mode) == (FULL, FULL)
    assert (
        await listed(stage, silent, sink)
        == await listed(stage, firm, other)
        == ["files__read_file", "files__write_file"]
    )
    specs = {name: server.spec for name, server in stage.servers.items()}
    stage.hub.apply(Config(mode=SEARCH, servers=specs))
    assert (silent.mode, firm.mode) == (SEARCH, FULL)
    assert [notice["method"] for notice in sink.messages("notify")] == [CHANGED]
    assert other.messages("notify") == []
    assert await listed(stage, silent, sink) == FIVE


async def test_a_client_whose_tools_become_too_many_is_told_to_look_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, config=Config(search_threshold=2), files=FILES)
    member, sink = stage.client(mode=AUTO)
    assert len(await listed(stage, member, sink)) == 2
    connection = stage.connection("files")
    connection.script["tools/list"] = {"tools": [{"name": name, "inputSchema": {}} for name in "abc"]}
    connection.say(CHANGED)
    await until(lambda: bool(sink.messages("notify")), "it is told")
    assert await listed(stage, member, sink) == FIVE
    assert member.searches


async def test_a_client_that_searches_is_not_told_of_tools_that_it_does_not_see(stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    await listed(stage, member, sink)
    await said(stage, member, sink, "find_tools", query="read")
    connection = stage.connection("files")
    connection.script["tools/list"] = {"tools": [{"name": "new_one", "inputSchema": {}}]}
    connection.say(CHANGED)
    await until(lambda: "files__new_one" in stage.hub._catalogue.view(member).tools, "the list is fetched anew")
    assert sink.messages("notify") == []
    assert "files__new_one" in text(await said(stage, member, sink, "find_tools", query="new one"))


@pytest.mark.parametrize("mode", [FULL, SEARCH])
async def test_the_instructions_of_who_searches_say_how(mode: str, stage: Stage) -> None:
    member, sink = stage.client(initialized=False, mode=mode)
    stage.ask(member, "initialize", protocolVersion="2025-11-25", capabilities={})
    stage.ask(member, "server/discover", id=2, _meta=ENVELOPE)
    for number in (1, 2):
        told = (await answer(sink, number))["result"].get("instructions") or ""
        assert (search_tools.INSTRUCTIONS in told) == (mode == SEARCH)


# --- finding


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_tools_of_all_servers_are_found(tmp_path: Path, era: str) -> None:
    stage = Stage(tmp_path, files=FILES, mail=MAIL)
    member, sink = stage.client(mode=SEARCH)
    stage.ask(member, "tools/call", **params(era, name="find_tools", arguments={"query": "mail a letter", "limit": 1}))
    result = (await answer(sink))["result"]
    assert "- mail__send_mail: Send a letter. (no required arguments; call_tool_destructive)" in text(result)
    assert "files__" not in text(result)
    assert ("resultType" in result) == (era == versions.MODERN)


async def test_an_empty_question_lists_the_servers(tmp_path: Path) -> None:
    stage = Stage(tmp_path, files=FILES, mail=MAIL)
    member, sink = stage.client(mode=SEARCH)
    assert "files (2), mail (1)" in text(await said(stage, member, sink, "find_tools", query=""))


async def test_a_client_of_one_server_finds_its_tools_under_their_own_names(tmp_path: Path) -> None:
    stage = Stage(tmp_path, files=FILES, mail=MAIL)
    member, sink = stage.client(server="files", mode=SEARCH)
    found = text(await said(stage, member, sink, "find_tools", query="read mail"))
    assert "- read_file: Read a file. (required: path: string; call_tool_read)" in found
    assert "send_mail" not in found


async def test_a_server_that_takes_too_long_is_named(tmp_path: Path) -> None:
    slow = {key: value for key, value in MAIL.items() if key != "tools/list"}
    stage = Stage(tmp_path, config=Config(list_timeout=0.05), files=FILES, slow=slow)
    member, sink = stage.client(mode=SEARCH)
    found = text(await said(stage, member, sink, "find_tools", query="read"))
    assert "files__read_file" in found
    assert "have not answered: the tools of slow" in found


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the indexes that are made."""
    sizes: list[int] = []

    class Counted(ToolIndex):
        def __init__(self, tools: Any) -> None:
            super().__init__(tools)
            sizes.append(len(self))

    monkeypatch.setattr(search, "ToolIndex", Counted)
    return sizes


async def test_the_same_lists_have_one_index_and_others_another(tmp_path: Path, made: list[int]) -> None:
    stage = Stage(tmp_path, files=FILES, mail=MAIL)
    member, sink = stage.client(mode=SEARCH)
    again, other = stage.client(mode=SEARCH)
    for _ in range(2):
        await said(stage, member, sink, "find_tools", query="read")
        await said(stage, again, other, "find_tools", query="read")
        stage.hub._catalogue.changed()
    assert made == [3]
    alone, last = stage.client(server="mail", mode=SEARCH)
    await said(stage, alone, last, "find_tools", query="read")
    assert made == [3, 1]


async def test_a_large_index_is_made_beside_the_loop_once_for_all_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[int]
) -> None:
    monkeypatch.setattr(search, "AT_ONCE", 2)
    stage = Stage(tmp_path, files=FILES, mail=MAIL)
    member, sink = stage.client(mode=SEARCH)
    await listed(stage, *stage.client())
    for number in range(5):
        stage.ask(member, "tools/call", id=number, name="find_tools", arguments={"query": "read"})
    await answer(sink, 5)
    assert made == [3]
    assert all("files__read_file" in text(found["result"]) for found in sink.messages("answer"))


@pytest.mark.parametrize("at_once", [0, 100])
async def test_where_nothing_can_be_searched_the_reason_is_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    def broken(tools: object) -> ToolIndex:
        raise SearchUnavailable("tools cannot be searched: no FTS5")

    monkeypatch.setattr(search, "ToolIndex", broken)
    monkeypatch.setattr(search, "AT_ONCE", at_once)
    stage = Stage(tmp_path, files=FILES)
    member, sink = stage.client(mode=SEARCH)
    stage.ask(member, "tools/call", name="find_tools", arguments={"query": "x"})
    assert (await answer(sink))["error"]["message"] == "tools cannot be searched: no FTS5"


async def test_indexes_are_bounded(stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    await said(stage, member, sink, "find_tools", query="x")
    kept = stage.hub._router._search
    for number in range(20):
        kept._keep(number, kept._indexes[next(iter(kept._indexes))])
    assert len(kept._indexes) == search.INDEXES_LIMIT


# --- describing


async def test_definitions_are_those_of_the_list(stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    described = await said(stage, member, sink, "describe_tools", names=["files__read_file"])
    full, other = stage.client()
    stage.ask(full, "tools/list")
    (listed, _) = (await answer(other))["result"]["tools"]
    assert json.loads(text(described).encode()) == {**listed, "callWith": "call_tool_read"}
    assert "isError" not in described


async def test_names_that_nobody_has_are_told_with_the_nearest(stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    described = await said(stage, member, sink, "describe_tools", names=["read_file"])
    assert described["isError"] is True
    assert "did you mean files__read_file?" in text(described)


# --- calling


CALL = {"name": "files__write_file", "arguments": {"path": "/x"}}
READ = {"name": "files__read_file", "arguments": {"path": "/x"}}


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_a_call_through_call_tool_is_the_direct_one_to_its_server_and_back(era: str, stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    stage.ask(member, "tools/call", id="a", **params(era, name="call_tool", arguments=CALL))
    through = await stage.on("files", "tools/call")
    stage.ask(member, "tools/call", id="a2", **params(era, **CALL))
    direct = await stage.on("files", "tools/call", 2)
    assert through["params"] == direct["params"] == {"name": "write_file", "arguments": {"path": "/x"}}
    for request in (through, direct):
        stage.connection("files").give(request["id"], {"content": [], "structuredContent": {"odd": 1}, "x": [1.0]})
    one, other = (await answer(sink, 1)), (await answer(sink, 2))
    assert one["result"] == other["result"]
    assert (one["id"], other["id"]) == ("a", "a2")


@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_a_tool_is_called_only_by_the_one_that_fits_its_annotations(
    era: str, is_running: bool, stage: Stage
) -> None:
    member, sink = stage.client(mode=SEARCH)
    if is_running:
        stage.ask(member, "tools/call", id="b", **params(era, name="call_tool_read", arguments=READ))
        number = (await stage.on("files", "tools/call"))["id"]
        stage.connection("files").give(number, {"content": []})
        await answer(sink)
    count = len(sink.heard("answer"))
    for caller, inner in (("call_tool_read", CALL), ("call_tool_write", CALL), ("call_tool_destructive", READ)):
        stage.ask(member, "tools/call", id=caller, **params(era, name=caller, arguments=inner))
        count += 1
        result = (await answer(sink, count))["result"]
        assert result["isError"] is True
        right = "call_tool_read" if inner is READ else "call_tool_destructive"
        assert f"call it with {right}" in text(result)
    stage.ask(member, "tools/call", id="r", **params(era, name="call_tool_destructive", arguments=CALL))
    request = await stage.on("files", "tools/call", 1 + is_running)
    assert request["params"] == {"name": "write_file", "arguments": {"path": "/x"}}


async def test_a_resent_call_runs_again_only_if_the_tool_behind_it_may(stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    for id, tool in (("w", "write_file"), ("r", "read_file")):
        arguments = {"name": f"files__{tool}", "arguments": {"path": "/x"}}
        given = {"name": "call_tool", "arguments": arguments}
        stage.receive(member, {"id": id, "method": "tools/call", "params": given}, resent=True)
    assert (await stage.on("files", "tools/call"))["params"]["name"] == "read_file"
    refused = await answer(sink)
    assert refused["id"] == "w"
    assert "may or may not have run" in refused["error"]["message"]


async def test_finding_again_harms_nobody(stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    given = {"name": "find_tools", "arguments": {"query": "read"}}
    stage.receive(member, {"id": 1, "method": "tools/call", "params": given}, resent=True)
    assert "files__read_file" in text((await answer(sink))["result"])


async def test_progress_and_cancellation_are_those_of_the_direct_call(stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    stage.ask(member, "tools/call", id="a", name="call_tool", arguments=CALL, _meta={"progressToken": "mine"})
    request = await stage.on("files", "tools/call")
    connection = stage.connection("files")
    token = request["params"]["_meta"]["progressToken"]
    connection.say("notifications/progress", {"progressToken": token, "progress": 1})
    await until(lambda: bool(sink.messages("notify")), "progress is told")
    assert sink.messages("notify")[0]["params"] == {"progressToken": "mine", "progress": 1}
    stage.tell(member, "notifications/cancelled", requestId="a")
    assert connection.notified[-1]["params"]["requestId"] == request["id"]
    assert sink.heard("answer") == []


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_a_name_that_nobody_has_is_a_result_with_the_nearest_names(era: str, stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    inner = {"name": "files__wrte_file", "arguments": {}}
    stage.ask(member, "tools/call", **params(era, name="call_tool", arguments=inner))
    result = (await answer(sink))["result"]
    assert result["isError"] is True
    assert "did you mean files__write_file" in text(result)
    assert ("resultType" in result) == (era == versions.MODERN)


async def test_a_tool_may_still_be_called_by_its_name(stage: Stage) -> None:
    member, _ = stage.client(mode=SEARCH)
    stage.ask(member, "tools/call", **CALL)
    assert (await stage.on("files", "tools/call"))["params"]["name"] == "write_file"


async def test_who_does_not_search_has_no_such_tools(stage: Stage) -> None:
    member, sink = stage.client()
    stage.ask(member, "tools/call", name="find_tools", arguments={"query": "x"})
    assert (await answer(sink))["error"] == {"code": -32602, "message": "unknown tool: find_tools"}


# --- a server whose own tool is called like one of the three


async def test_of_one_server_alone_the_search_goes_before_its_own_tool_of_that_name_which_call_tool_reaches(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, alike=NAMED_ALIKE)
    member, sink = stage.client(server="alike", mode=SEARCH)
    assert "- find_tools" in text(await said(stage, member, sink, "find_tools", query="find tools"))
    stage.ask(member, "tools/call", id=9, name="call_tool", arguments={"name": "find_tools", "arguments": {"q": 1}})
    assert (await stage.on("alike", "tools/call"))["params"] == {"name": "find_tools", "arguments": {"q": 1}}


async def test_with_auto_and_few_tools_it_is_the_servers_own(tmp_path: Path) -> None:
    stage = Stage(tmp_path, alike=NAMED_ALIKE)
    member, sink = stage.client(server="alike", mode=AUTO)
    assert await listed(stage, member, sink) == ["find_tools", "other"]
    stage.ask(member, "tools/call", id=9, name="find_tools", arguments={"q": 1})
    assert (await stage.on("alike", "tools/call"))["params"] == {"name": "find_tools", "arguments": {"q": 1}}


async def test_with_auto_a_client_that_has_the_three_from_another_daemon_may_go_on_with_them(stage: Stage) -> None:
    member, _ = stage.client(mode=AUTO)
    stage.ask(member, "tools/call", name="call_tool", arguments=CALL)
    assert (await stage.on("files", "tools/call"))["params"]["name"] == "write_file"


async def test_what_a_list_of_search_tools_contains_is_no_other_lists_content(stage: Stage) -> None:
    member, sink = stage.client(mode=SEARCH)
    await listed(stage, member, sink)
    assert member.seen[TOOLS] != stage.hub._catalogue.view(member).content[TOOLS]
