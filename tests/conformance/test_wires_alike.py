"""One core, five wires: the same scenario gets the same answers on each, byte for byte.

What is left out of the comparison is said in `scenario`: ids that Hearth draws by lot, and between the eras their
envelopes.
"""

import json
import sys
from functools import cache
from urllib.parse import urlsplit

import pytest

from support.conformance.channels import Channel, Http, Lined
from support.conformance.revisions import MODERN, is_modern
from support.conformance.scenario import LEGACY, REVISIONS, Step, Transcript, play, without_envelope
from support.conformance.wires import SERVER
from support.daemon import Scratch
from support.http.clients import HttpClient
from support.stdio_server import StdioServer

WIRES = ("lines", "frames", "http", "port", "stdio")
# What the two eras answer differently by their own rules.
OF_ONE_ERA = {
    # A structure that is no object, and its schema, are the modern era's.
    "tools/list",
    "tools/call 2026-07-28__array",
    # -32002 is the legacy era's.
    "resources/read missing",
    "resources/read nobody's",
    # So are these methods.
    "ping",
    "logging/setLevel a level that is none",
    "resources/subscribe nobody's",
}
CODES = {
    "tools/call 2025-11-25__broken": -32603,
    "tools/call 2026-07-28__broken": -32603,
    "tools/call unknown tool": -32602,
    "tools/call without a name": -32602,
    "tools/call a name that is none": -32602,
    "no/such/method": -32601,
    "resources/read without an address": -32602,
    "prompts/get without its argument": -32602,
    "prompts/get unknown": -32602,
    "completion/complete without a reference": -32602,
    "tools/list a cursor that nobody gave": -32602,
    "malformed: no JSON": -32700,
    "malformed: no object": -32600,
    "malformed: a number": -32600,
    "malformed: nothing in it": -32600,
    "malformed: invalid UTF-8": -32600,
    "malformed: another version of JSON-RPC": -32600,
    "malformed: an id that is null": -32600,
    "malformed: an id that is an object": -32600,
    "malformed: a method that is a number": -32600,
    "malformed: an empty batch": -32600,
    "malformed: a batch": -32600,
}
CODES_OF = {
    LEGACY: {
        "resources/read missing": -32002,
        "resources/read nobody's": -32002,
        "logging/setLevel a level that is none": -32602,
        "resources/subscribe nobody's": -32002,
        "malformed: params that are an array": -32602,
        "malformed: too deep": -32601,
    },
    MODERN: {
        "resources/read missing": -32602,
        "resources/read nobody's": -32602,
        "ping": -32601,
        "logging/setLevel a level that is none": -32601,
        "resources/subscribe nobody's": -32601,
        "malformed: a revision that nobody knows": -32022,
        "malformed: a revision that is none": -32602,
        "malformed: no capabilities": -32602,
        "malformed: capabilities that are none": -32602,
        "malformed: a level that is none": -32602,
    },
}


def channel_of(scratch: Scratch, wire: str, revision: str) -> Channel:
    """A client's way to a Hearth that was started for it alone."""
    if wire == "stdio":
        return Lined(StdioServer(scratch))
    scratch.start(*(("--http", "127.0.0.1:0") if wire == "port" else ()))
    if wire == "lines":
        return Lined(scratch.lines())
    if wire == "frames":
        return Lined(scratch.frames())
    client = HttpClient(scratch)
    if wire == "port":
        parts = urlsplit(scratch.status()["http"][0])
        assert parts.hostname and parts.port
        client = HttpClient(scratch, address=(parts.hostname, parts.port))
        token = scratch.home / ".local" / "state" / "hearth" / "http" / "token"
        client.headers["Authorization"] = f"Bearer {token.read_text().strip()}"
    return Http(client, is_modern(revision))


@cache
def played(wire: str, revision: str) -> Transcript:
    with Scratch() as scratch:
        words = ["-I", "-S", str(SERVER)]
        scratch.configure({name: {"command": sys.executable, "args": [*words, name]} for name in REVISIONS})
        return play(channel_of(scratch, wire, revision), revision)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("wire", WIRES[1:])
def test_a_scenario_gets_the_same_answers_on_every_wire(wire: str, revision: str) -> None:
    expected, found = played(WIRES[0], revision), played(wire, revision)
    assert [step.name for step in found.steps] == [step.name for step in expected.steps]
    for ours, theirs in zip(found.steps, expected.steps, strict=True):
        assert ours == theirs
    assert found.others == expected.others


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_scenario_gets_what_it_is_written_for(revision: str) -> None:
    """On one wire: that the others say the same would mean little if all were wrong alike."""
    steps, others = played(WIRES[0], revision)
    found = {step.name: json.loads(step.messages[-1]) for step in steps}
    errors = {name: answer["error"]["code"] for name, answer in found.items() if "error" in answer}
    assert errors == {**CODES, **CODES_OF[revision]}
    assert sum(without_envelope(raw) is None for step in steps for raw in step.messages) >= 8
    assert sum(b"notifications/resources/updated" in raw for raw in others) == 2


def test_the_eras_get_the_same_answers_in_their_own_envelopes() -> None:
    legacy, modern = (told(played(WIRES[0], revision).steps) for revision in REVISIONS)
    shared = (legacy.keys() & modern.keys()) - OF_ONE_ERA
    assert len(shared) >= 40
    for name in shared:
        assert modern[name] == legacy[name], name


def told(steps: list[Step]) -> dict[str, list[list[str]]]:
    """What each step got, without envelopes and questions."""
    found: dict[str, list[list[str]]] = {}
    for step in steps:
        plain = [text for raw in step.messages if (text := without_envelope(raw)) is not None]
        found.setdefault(step.name, []).append(plain)
    return found
