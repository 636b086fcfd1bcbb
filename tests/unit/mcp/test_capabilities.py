"""What a client of a revision can be asked, and what Hearth declares to either side."""

import pytest

from hearth.mcp import capabilities, versions
from hearth.wire import json

FORM = b'{"message":"?","requestedSchema":{"type":"object","properties":{}}}'
URL = b'{"mode":"url","message":"?","url":"https://example.org"}'
PLAIN = b'{"messages":[],"maxTokens":1}'
TOOLS = b'{"messages":[],"maxTokens":1,"tools":[]}'
CHOICE = b'{"messages":[],"maxTokens":1,"toolChoice":{"mode":"none"}}'
ROOTS, SAMPLING, ELICITATION = capabilities.ROOTS, capabilities.SAMPLING, capabilities.ELICITATION


def problem(method: str, params: bytes, declared: bytes, version: str = "2025-11-25") -> str | None:
    return capabilities.problem(method, json.split(params), json.split(declared), version)


@pytest.mark.parametrize("version", [*versions.LEGACY_VERSIONS, *versions.MODERN_VERSIONS])
@pytest.mark.parametrize(
    ("method", "params", "declared", "since"),
    [
        (ROOTS, b"{}", b'{"roots":{}}', "2024-11-05"),
        (ROOTS, b"{}", b'{"roots":{"listChanged":true}}', "2024-11-05"),
        (SAMPLING, PLAIN, b'{"sampling":{}}', "2024-11-05"),
        (SAMPLING, TOOLS, b'{"sampling":{"tools":{}}}', "2025-11-25"),
        (SAMPLING, CHOICE, b'{"sampling":{"tools":{}}}', "2025-11-25"),
        (ELICITATION, FORM, b'{"elicitation":{}}', "2025-06-18"),
        (ELICITATION, FORM, b'{"elicitation":{"form":{}}}', "2025-06-18"),
        (ELICITATION, FORM, b'{"elicitation":{"vendor":1}}', "2025-06-18"),
        (ELICITATION, URL, b'{"elicitation":{"url":{}}}', "2025-11-25"),
        (ELICITATION, URL, b'{"elicitation":{"form":{},"url":{}}}', "2025-11-25"),
    ],
)
def test_what_is_declared_can_be_asked_since_the_revision_that_has_it(
    method: str, params: bytes, declared: bytes, since: str, version: str
) -> None:
    found = problem(method, params, declared, version)
    assert (found is None) == (version >= since)
    assert found is None or version in found


@pytest.mark.parametrize(
    ("method", "params", "declared", "said"),
    [
        (ROOTS, b"{}", b"{}", "roots"),
        (ROOTS, b"{}", b'{"roots":null}', "roots"),
        (SAMPLING, PLAIN, b'{"roots":{}}', "sampling"),
        (SAMPLING, TOOLS, b'{"sampling":{}}', "sampling.tools"),
        (SAMPLING, CHOICE, b'{"sampling":{"context":{}}}', "sampling.tools"),
        (ELICITATION, FORM, b"{}", "elicitation"),
        (ELICITATION, FORM, b'{"elicitation":false}', "elicitation"),
        (ELICITATION, FORM, b'{"elicitation":{"url":{}}}', "elicitation.form"),
        (ELICITATION, URL, b'{"elicitation":{}}', "elicitation.url"),
        (ELICITATION, URL, b'{"elicitation":{"form":{}}}', "elicitation.url"),
        (ELICITATION, b'{"mode":"voice"}', b'{"elicitation":{}}', "mode"),
        (ELICITATION, b'{"mode":1}', b'{"elicitation":{}}', "mode"),
        ("tools/call", b"{}", capabilities.FULL, "tools/call"),
    ],
)
def test_what_is_missing_is_said(method: str, params: bytes, declared: bytes, said: str) -> None:
    found = problem(method, params, declared)
    assert found is not None
    assert said in found


def test_before_its_modes_elicitation_means_the_form_whatever_is_declared() -> None:
    assert problem(ELICITATION, FORM, b'{"elicitation":{"url":{}}}', "2025-06-18") is None


ASKED = [
    (ROOTS, b"{}"),
    (SAMPLING, PLAIN),
    (SAMPLING, TOOLS),
    (SAMPLING, CHOICE),
    (ELICITATION, FORM),
    (ELICITATION, URL),
]


@pytest.mark.parametrize(("method", "params"), ASKED)
def test_who_declares_everything_can_be_asked_everything(method: str, params: bytes) -> None:
    assert problem(method, params, capabilities.FULL) is None


@pytest.mark.parametrize(("method", "params"), ASKED)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_the_required_capabilities_are_the_ones_that_were_missing(method: str, params: bytes, version: str) -> None:
    required = capabilities.required(method, json.split(params))
    assert problem(method, params, b"{}", version) is not None
    assert problem(method, params, json.dumps(required), version) is None


def test_an_unknown_question_requires_nothing_that_could_be_declared() -> None:
    assert capabilities.required("tools/call", {}) == {}


def mirrored(declared: bytes, era: str) -> object:
    return json.loads(json.join(capabilities.mirrored(json.split(declared), era)))


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
@pytest.mark.parametrize(
    ("declared", "offered"),
    [
        (b"{}", {}),
        (b'{"tools":{}}', {"tools": {"listChanged": True}}),
        (b'{"prompts":{"listChanged":false}}', {"prompts": {"listChanged": True}}),
        (b'{"resources":{"subscribe":true}}', {"resources": {"subscribe": True, "listChanged": True}}),
        (b'{"resources":{}}', {"resources": {"listChanged": True}}),
        (b'{"logging":{},"completions":{}}', {"logging": {}, "completions": {}}),
        (b'{"tools":null,"logging":false}', {}),
        (b'{"tasks":{"list":{}},"logging":{}}', {"logging": {}}),
        (
            b'{"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"a":1}}}',
            {"extensions": {"io.modelcontextprotocol/ui": {"a": 1}}},
        ),
        (b'{"extensions":{"io.modelcontextprotocol/tasks":{}}}', {}),
        (b'{"experimental":{"tasks":{},"x":{"y":[1]}}}', {"experimental": {"x": {"y": [1]}}}),
    ],
)
def test_one_server_s_capabilities_are_offered_as_far_as_hearth_carries_them(
    declared: bytes, offered: object, era: str
) -> None:
    assert mirrored(declared, era) == offered


def test_what_the_modern_schema_does_not_have_is_offered_to_legacy_clients_only() -> None:
    assert mirrored(b'{"vendor":{"a":1}}', versions.LEGACY) == {"vendor": {"a": 1}}
    assert mirrored(b'{"vendor":{"a":1}}', versions.MODERN) == {}


def test_everything_is_mirrored_as_it_is() -> None:
    for era in (versions.LEGACY, versions.MODERN):
        assert mirrored(json.dumps(capabilities.EVERYTHING), era) == capabilities.EVERYTHING
