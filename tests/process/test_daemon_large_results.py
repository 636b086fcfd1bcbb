"""Large results on a real daemon: what the model gets, and how a session reads the full text."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.clients import Client, Message, modern, text_of
from support.daemon import Scratch, server
from support.http.clients import LegacyHttp, ModernHttp
from support.puppets.stage import Stage

LIMIT = 20_000
# One MB; every line is another, and characters have one to four bytes.
LARGE = "".join(f"{number:06} aé€🔥 \n" for number in range(56_000))
LARGE_BYTES = LARGE.encode()
LEGACY_CODE, MODERN_CODE = -32002, -32602

Ask = Callable[[str, Message], Message]


@pytest.fixture(scope="module")
def limited(shared: Scratch) -> Scratch:
    """A daemon whose servers have a limit, of both eras, and one server without a limit."""
    shared.serve(
        {
            "old": server("echo", result_limit=LIMIT),
            "new": server("modern", result_limit=LIMIT),
            "big": server("big", result_limit=LIMIT),
            "free": server("echo"),
        }
    )
    return shared


def _on_socket(client: Client, is_modern: bool) -> Ask:
    if not is_modern:
        client.initialize()
    return lambda method, params: client.ask(method, modern(**params) if is_modern else params)


def _over_http(scratch: Scratch, is_modern: bool, agent: str) -> Ask:
    client = ModernHttp(scratch) if is_modern else LegacyHttp(scratch)
    client.headers["X-Hearth-Agent"] = agent
    if isinstance(client, LegacyHttp):
        client.open()

    def ask(method: str, params: Message) -> Message:
        [answer] = client.post(method, params).messages()
        return answer

    return ask


def session(scratch: Scratch, wire: str, agent: str = "first") -> Ask:
    """A new session on that wire; over modern HTTP, another agent is another session."""
    is_modern = wire.startswith("modern")
    if wire.endswith("http"):
        return _over_http(scratch, is_modern, agent)
    return _on_socket(scratch.frames() if wire.endswith("frames") else scratch.lines(), is_modern)


@pytest.fixture(params=[f"{era} {way}" for era in ("legacy", "modern") for way in ("lines", "frames", "http")])
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


def call(ask: Ask, tool: str, **arguments: object) -> Any:
    return ask("tools/call", {"name": tool, "arguments": arguments})["result"]


def link_in(result: Message) -> str:
    [uri] = [block["uri"] for block in result["content"] if block["type"] == "resource_link"]
    assert isinstance(uri, str)
    return uri


@pytest.mark.parametrize("upstream", ["old", "new"])
def test_the_model_gets_head_tail_and_link_and_the_session_reads_it_all(
    limited: Scratch, wire: str, upstream: str
) -> None:
    ask = session(limited, wire)
    result = call(ask, f"{upstream}__echo", text=LARGE)
    shown, link = result["content"]
    assert len(shown["text"].encode()) <= LIMIT
    head, notice = shown["text"].split("\n\n[")
    notice, tail = notice.split("]\n\n")
    assert LARGE.startswith(head)
    assert LARGE.endswith(tail)
    assert len(head) > len(tail) > 1000
    left_out = len(LARGE_BYTES) - len(head.encode()) - len(tail.encode())
    assert f"{left_out} of {len(LARGE_BYTES)} bytes" in notice
    uri = link_in(result)
    assert uri.startswith("hearth-result:///")
    assert uri in notice
    assert link["mimeType"] == "text/plain"
    read = ask("resources/read", {"uri": uri})["result"]
    [content] = read["contents"]
    assert content["text"].encode() == LARGE_BYTES
    assert (content["uri"], content["mimeType"]) == (uri, "text/plain")
    is_modern = wire.startswith("modern")
    assert {read.get("resultType"), result.get("resultType")} == ({"complete"} if is_modern else {None})
    assert ("ttlMs" in read) is ("cacheScope" in read) is is_modern


def test_another_session_cannot_read_it_and_is_told_to_call_again(limited: Scratch, wire: str) -> None:
    first, second = session(limited, wire), session(limited, wire, "second")
    uri = link_in(call(first, "old__echo", text=LARGE))
    for wrong in (uri, "hearth-result:///" + "0" * 32):
        error = second("resources/read", {"uri": wrong})["error"]
        assert error["code"] == (MODERN_CODE if wire.startswith("modern") else LEGACY_CODE)
        assert error["data"] == {"uri": wrong}
        assert "expired" in error["message"]
        assert "call the tool again" in error["message"]
    assert first("resources/read", {"uri": uri})["result"]["contents"][0]["text"] == LARGE


def raw_result(client: Client, tool: str, raw: bytes) -> bytes:
    """The bytes of the result of a tool that answers with the JSON it is given."""
    client.begin_call(tool, 77, json=raw.decode())
    line = client.receive_line()
    start = b'{"jsonrpc":"2.0","id":77,"result":'
    assert line.startswith(start)
    return line[len(start) : -1]


@pytest.mark.parametrize("size", [10, LIMIT - 100])
def test_up_to_the_limit_every_byte_is_the_server_s(limited: Scratch, size: int) -> None:
    client = limited.lines().initialized()
    client.tools()
    odd = b'{ "content" : [ {"type":"text" , "text":"\\u00e9\\/%b" } ],"n":1e2 }' % (b"x" * size)
    assert raw_result(client, "big__verbatim", odd) == odd


def test_images_stay_as_they_are_and_errors_stay_errors(limited: Scratch) -> None:
    client = limited.lines().initialized()
    client.tools()
    image = b'{ "content" : [{"type":"image","mimeType":"image/png","data":"%b"}] }' % (b"A" * 2 * LIMIT)
    assert raw_result(client, "big__verbatim", image) == image
    failed = b'{"content":[{"type":"text","text":"%b"}],"isError":true}' % (b"x" * 2 * LIMIT)
    shortened = json.loads(raw_result(client, "big__verbatim", failed))
    assert shortened["isError"] is True
    assert link_in(shortened)


def test_a_server_without_a_limit_is_not_touched(limited: Scratch) -> None:
    client = limited.lines().initialized()
    assert client.call("free__echo", text=LARGE)["result"]["content"] == [{"type": "text", "text": LARGE}]


def test_a_client_of_an_older_revision_finds_the_uri_in_the_text(limited: Scratch) -> None:
    client = limited.lines().initialized("2025-03-26")
    answer = client.call("old__echo", text=LARGE)
    assert [block["type"] for block in answer["result"]["content"]] == ["text"]
    uri = "hearth-result:///" + text_of(answer).partition("hearth-result:///")[2].partition(";")[0]
    assert client.ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"] == LARGE


@pytest.mark.parametrize("is_modern", [False, True])
def test_a_session_for_one_server_without_resources_reads_it_too(limited: Scratch, is_modern: bool) -> None:
    # Its capabilities are known from here on.
    limited.lines().tools()
    client = limited.frames(server="old")
    opened = client.ask("server/discover", modern())["result"] if is_modern else client.initialize()
    assert "resources" in opened["capabilities"]

    def ask(method: str, params: Message) -> Message:
        return client.ask(method, modern(**params) if is_modern else params)

    assert ask("resources/list", {})["result"]["resources"] == []
    uri = link_in(call(ask, "echo", text=LARGE))
    assert ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"] == LARGE
    assert "resources" not in limited.frames(server="free").initialize()["capabilities"]


def test_a_tool_that_is_called_by_a_client_that_searches_has_the_limit_too(limited: Scratch) -> None:
    client = limited.frames(mode="search")
    client.initialize()
    answer = client.call("call_tool_read", name="old__echo", arguments={"text": LARGE})
    uri = link_in(answer["result"])
    assert client.ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"] == LARGE


def test_a_reload_changes_the_limit_of_a_server_that_runs(scratch: Scratch) -> None:
    client = scratch.serve({"echo": server("echo")}).frames().initialized()
    assert text_of(client.call("echo__echo", text=LARGE)) == LARGE
    pids = scratch.upstream("echo")["pids"]
    scratch.configure({"echo": server("echo", result_limit=LIMIT)})
    client.control("reload")
    assert link_in(client.call("echo__echo", text=LARGE)["result"])
    assert scratch.upstream("echo")["pids"] == pids


@pytest.mark.parametrize("has_schema", [False, True])
def test_structured_content_stays_whole_where_a_schema_demands_it(stage: Stage, has_schema: bool) -> None:
    tool: Message = {"name": "act", "inputSchema": {"type": "object"}}
    if has_schema:
        tool["outputSchema"] = {"type": "object", "required": ["rows"]}
    actor = stage.serve(tools=[tool], keys={"result_limit": LIMIT})
    client = stage.scratch.lines()
    client.initialize()
    id = client.begin_call("puppet__act")
    puppet, asked = actor.next("tools/call")
    structured = {"rows": [LARGE]}
    puppet.answer(asked, content=[{"type": "text", "text": LARGE}], structuredContent=structured)
    result = client.answer_to(id)["result"]
    assert result.get("structuredContent") == (structured if has_schema else None)
    contents = client.ask("resources/read", {"uri": link_in(result)})["result"]["contents"]
    assert contents[0]["text"] == LARGE
    assert [json.loads(each["text"]) for each in contents[1:]] == ([] if has_schema else [structured])
