"""What goes into the headers of a modern request: the same as the daemon sends, with the standard library only."""

import json
from typing import Any

import pytest

from hearth.bridge.remote.headers import Repeated, encode
from hearth.bridge.remote.messages import Message, read
from hearth.mcp import http_headers

VALUES = [
    "",
    "x",
    " x",
    "x\t",
    "a b",
    "ä",
    "\u20ac",
    "a\nb",
    "=?base64?eA==?=",
    "=?base64?",
    "\ud800x",
    "~!",
    "x" * 5000,
]


@pytest.mark.parametrize("value", VALUES)
def test_values_are_written_as_the_daemon_writes_them(value: str) -> None:
    assert encode(value) == http_headers.encode(value)


def message(method: str, **params: Any) -> Message:
    [found], _ = read(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
    return found


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {}),
        ("tools/call", {"name": "größe"}),
        ("prompts/get", {"name": "x"}),
        ("resources/read", {"uri": "file:///a b"}),
        ("resources/read", {"uri": 7}),
        ("tools/call", {}),
    ],
)
def test_method_and_name_are_repeated_as_the_daemon_does(method: str, params: dict[str, Any]) -> None:
    found = Repeated().of(message(method, **params), "2026-07-28")
    assert found.pop("MCP-Protocol-Version") == "2026-07-28"
    assert found == http_headers.standard(method, json.dumps(params).encode())


SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "x-mcp-header": "Text"},
        "flag": {"type": "boolean", "x-mcp-header": "Flag"},
        "inner": {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
        "plain": {"type": "string"},
    },
}


def listed(*tools: dict[str, Any]) -> Message:
    [found], _ = read(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).encode())
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "ä", "flag": True, "inner": {"count": 42}, "plain": "x"},
        {"flag": False, "inner": {"count": 4.20e1}},
        {"inner": {"count": 1e300}},
        {"inner": {"count": 1.5}},
        {"text": None, "flag": {}, "inner": []},
        {"text": [], "inner": {}},
        {},
    ],
)
def test_annotated_arguments_are_repeated_as_the_daemon_does(arguments: dict[str, Any]) -> None:
    repeated = Repeated()
    assert repeated.learn(listed({"name": "t", "inputSchema": SCHEMA})) == []
    found = repeated.of(message("tools/call", name="t", arguments=arguments), "2026-07-28")
    index = http_headers.index(json.dumps(SCHEMA).encode())
    wanted = http_headers.values(index, json.dumps(arguments).encode())
    assert {name: value for name, value in found.items() if name.startswith("Mcp-Param-")} == wanted


def test_a_tool_that_has_lost_its_annotation_is_forgotten() -> None:
    repeated = Repeated()
    repeated.learn(listed({"name": "t", "inputSchema": SCHEMA}))
    repeated.learn(listed({"name": "t", "inputSchema": {}}, {"name": 7}, "x"))  # type: ignore[arg-type]
    assert "Mcp-Param-Text" not in repeated.of(message("tools/call", name="t", arguments={"text": "x"}), "v")


def test_an_annotation_without_meaning_is_told_and_not_followed() -> None:
    repeated = Repeated()
    [problem] = repeated.learn(listed({"name": "t", "inputSchema": {"x-mcp-header": "X"}}))
    assert "'t'" in problem
    assert "Mcp-Param-X" not in repeated.of(message("tools/call", name="t", arguments={}), "v")
