"""What an older client cannot take is put so that it can, and everything else is left alone."""

import pytest

from hearth.mcp import downgrade, versions
from hearth.wire import json
from hearth.wire.values import Members

TEXT = b'{"type":"text","text":"t"}'
AUDIO = b'{"type":"audio","data":"AAAA","mimeType":"audio/wav","annotations":{"priority":1}}'
LINK = b'{"type":"resource_link","uri":"u:1","name":"n","title":"T"}'
VERSIONS = versions.LEGACY_VERSIONS


def called(raw: bytes, version: str) -> object:
    return json.loads(json.join(downgrade.call_result({**json.split(raw)}, version)))


def shown(raw: bytes, version: str = versions.NEWEST_LEGACY, era: str = versions.LEGACY) -> dict[str, object]:
    found = json.loads(json.join(downgrade.tool(json.split(raw), era, version)))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_what_every_revision_has_is_the_very_same_object(version: str) -> None:
    raw = b'[{"type":"text","text":"\xc3\xa9"},{"type":"image","data":"","mimeType":"i/p"},{"type":"resource"}]'
    assert downgrade.content(raw, version) is raw
    fields: Members = {"messages": b'[{"role":"user","content":%b}]' % TEXT}
    assert downgrade.prompt_result(fields, version) is fields


def test_audio_becomes_text_for_the_first_revision_only() -> None:
    raw = b"[%b,%b]" % (TEXT, AUDIO)
    first, lowered = json.loads(downgrade.content(raw, "2024-11-05"))
    assert first == json.loads(TEXT)
    assert lowered["type"] == "text"
    assert "audio/wav" in lowered["text"]
    assert lowered["annotations"] == {"priority": 1}
    assert json.loads(downgrade.content(raw, "2025-03-26")) == json.loads(raw)


@pytest.mark.parametrize(
    ("link", "text"),
    [
        (LINK, "T: u:1"),
        (b'{"type":"resource_link","uri":"u:1","name":"n"}', "n: u:1"),
        (b'{"type":"resource_link","uri":"u:1"}', "u:1"),
        (b'{"type":"resource_link","uri":"u:1","name":"n","description":"D"}', "n: u:1\nD"),
        (rb'{"type":"resource\u005flink","uri":"u:1","name":"n"}', "n: u:1"),
    ],
)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
def test_a_link_becomes_text_that_names_the_resource(version: str, link: bytes, text: str) -> None:
    assert json.loads(downgrade.content(b"[%b]" % link, version)) == [{"type": "text", "text": text}]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_revisions_that_have_links_get_them(version: str) -> None:
    raw = b"[%b,%b]" % (LINK, AUDIO)
    assert downgrade.content(raw, version) is raw


@pytest.mark.parametrize("raw", [b'"audio"', b'{"audio":1}', b'[1,"audio",null,[]]', b'[{"type":["audio"]}]'])
def test_content_that_is_none_is_left_to_the_client(raw: bytes) -> None:
    assert json.loads(downgrade.content(raw, "2024-11-05")) == json.loads(raw)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_result_without_content_gets_some(version: str) -> None:
    assert called(b'{"isError":false}', version) == {"isError": False, "content": []}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
def test_structured_content_is_dropped_where_the_text_says_the_same(version: str) -> None:
    assert called(b'{"content":[%b],"structuredContent":{"a":1}}' % TEXT, version) == {"content": [json.loads(TEXT)]}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
@pytest.mark.parametrize("content", [b"", b'"content":[],', b'"content":[%b],' % AUDIO.replace(b"audio", b"image")])
def test_structured_content_becomes_text_where_there_is_none(version: str, content: bytes) -> None:
    found = called(b'{%b"structuredContent":{"a":"\xc3\xa9"}}' % content, version)
    assert isinstance(found, dict)
    assert "structuredContent" not in found
    assert found["content"][-1] == {"type": "text", "text": '{"a":"é"}'}
    assert len(found["content"]) == 1 + (b"type" in content)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_objects_stay_structured_and_other_values_become_text(version: str) -> None:
    assert called(b'{"content":[],"structuredContent":{}}', version) == {"content": [], "structuredContent": {}}
    assert called(b'{"content":[],"structuredContent":[1]}', version) == {"content": [{"type": "text", "text": "[1]"}]}
    assert called(b'{"content":[],"structuredContent":null}', version) == {"content": []}


def test_the_messages_of_a_prompt_are_lowered_one_by_one() -> None:
    messages = b'[{"role":"user","content":%b,"x":1},{"role":"user","content":%b},{"role":"user"}]' % (LINK, AUDIO)
    found = downgrade.prompt_result({"messages": messages, "description": b'"d"'}, "2025-03-26")
    assert json.loads(json.join(found)) == {
        "description": "d",
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "T: u:1"}, "x": 1},
            {"role": "user", "content": json.loads(AUDIO)},
            {"role": "user"},
        ],
    }


@pytest.mark.parametrize(
    ("schema", "version", "kept"),
    [
        (b'{"type":"object"}', "2025-11-25", True),
        (b'{"type":"object"}', "2025-06-18", True),
        (b'{"type":"object"}', "2025-03-26", False),
        (b'{"type":"object"}', "2024-11-05", False),
        (b'{"type":"array"}', "2025-11-25", False),
        (b'{"anyOf":[{"type":"object"}]}', "2025-11-25", False),
        (b'{"type":["object","null"]}', "2025-06-18", False),
        (b"true", "2025-06-18", False),
    ],
)
def test_an_output_schema_is_shown_where_structured_content_is_given(schema: bytes, version: str, kept: bool) -> None:
    raw = b'{"name":"t","inputSchema":{"type":"object"},"outputSchema":%b}' % schema
    assert ("outputSchema" in shown(raw, version)) is kept
    assert "outputSchema" in shown(raw, versions.NEWEST_MODERN, versions.MODERN)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_definition_that_every_client_takes_is_untouched(version: str) -> None:
    raw = (
        rb'{"name":"t","title":"\ud800","icons":[{"src":"s"}],"annotations":{"readOnlyHint":true},"x":1.0,'
        rb'"inputSchema":{"type":"object","properties":{"a":{"type":["string"]}},"$defs":{"b":true}}}'
    )
    assert json.join(downgrade.tool(json.split(raw), versions.LEGACY, version)) == raw


@pytest.mark.parametrize(
    ("schema", "lowered"),
    [
        (b"", {"type": "object"}),
        (b',"inputSchema":null', {"type": "object"}),
        (b',"inputSchema":{"anyOf":[true]}', {"anyOf": [True], "type": "object"}),
        (b',"inputSchema":{"type":["object","null"]}', {"type": "object"}),
        (b',"inputSchema":{"type":"object","properties":null}', {"type": "object", "properties": {}}),
        (
            b',"inputSchema":{"type":"object","properties":{"a":true,"b":false,"c":{"x":1},"d":7}}',
            {"type": "object", "properties": {"a": {}, "b": {"not": {}}, "c": {"x": 1}, "d": {}}},
        ),
    ],
)
def test_an_input_schema_is_one_of_an_object_whose_properties_are_objects(schema: bytes, lowered: object) -> None:
    assert shown(b'{"name":"t"%b}' % schema) == {"name": "t", "inputSchema": lowered}


def test_tasks_of_a_legacy_revision_are_not_offered_to_modern_clients() -> None:
    raw = b'{"name":"t","inputSchema":{},"execution":{"taskSupport":"optional"}}'
    assert shown(raw, versions.NEWEST_MODERN, versions.MODERN) == {"name": "t", "inputSchema": {}}
    assert shown(raw)["execution"] == {"taskSupport": "optional"}


@pytest.mark.parametrize(
    ("method", "raw"),
    [
        ("tools/call", b'{"content":[%b]}' % LINK),
        ("tools/call", b'{"structuredContent":1}'),
        ("prompts/get", b'{"messages":[{"role":"user","content":%b}]}' % LINK),
        ("tools/list", b'{"tools":[{"name":"t","outputSchema":{"type":"array"}}]}'),
    ],
)
def test_a_result_that_concerns_an_old_client_is_found_and_lowered(method: str, raw: bytes) -> None:
    assert downgrade.concerns(method, raw, "2025-03-26")
    assert not downgrade.concerns(method, raw, "2025-06-18")
    found = json.join(downgrade.result(method, {**json.split(raw)}, "2025-03-26"))
    assert not any(word in found for word in (b"resource_link", b"structuredContent", b"outputSchema"))


@pytest.mark.parametrize("method", ["resources/read", "completion/complete", "vendor/method"])
def test_other_results_are_the_same_in_all_revisions(method: str) -> None:
    assert not downgrade.concerns(method, b'{"x":"audio resource_link structuredContent"}', "2024-11-05")
    fields: Members = {"x": b'"audio"'}
    assert downgrade.result(method, fields, "2024-11-05") is fields
