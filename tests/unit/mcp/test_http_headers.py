"""Headers that repeat what the body says: made for modern servers, checked for modern clients."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import MessageError
from hearth.mcp import http_headers, versions
from hearth.wire import json

STRING = b'{"type":"string","x-mcp-header":"Region"}'


def schema(properties: bytes, rest: bytes = b"") -> bytes:
    return b'{"type":"object","properties":{%b}%b}' % (properties, rest)


def test_annotations_are_found_through_chains_of_properties() -> None:
    nested = b'"a":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"Deep"}}}'
    flag = b'"f":{"type":"boolean","x-mcp-header":"Flag"}'
    assert http_headers.index(schema(b'"region":%b,%b,%b,"plain":{"type":"string"}' % (STRING, nested, flag))) == {
        ("region",): "Mcp-Param-Region",
        ("a", "b"): "Mcp-Param-Deep",
        ("f",): "Mcp-Param-Flag",
    }


@pytest.mark.parametrize(
    "properties",
    [
        b'"a":{"type":"string"}',
        b'"x-mcp-header":{"type":"string"}',
        b'"a":{"type":"object","default":{"x-mcp-header":"A"},"enum":[{"x-mcp-header":"A"}]}',
        b'"a":true',
        rb'"a":{"type":"string","description":"\u00e9"}',
    ],
)
def test_what_only_looks_like_an_annotation_is_none(properties: bytes) -> None:
    assert http_headers.index(schema(properties)) == {}


@pytest.mark.parametrize("raw", [b"{}", b"true", b"7", b"[]"])
def test_a_schema_that_describes_nothing_asks_for_no_header(raw: bytes) -> None:
    assert http_headers.index(raw) == {}


def test_an_annotation_that_is_written_with_escapes_counts() -> None:
    assert http_headers.index(schema(rb'"a":{"type":"string","x-mcp-he\u0061der":"A"}')) == {("a",): "Mcp-Param-A"}


@pytest.mark.parametrize(
    "raw",
    [
        *(schema(b'"a":{"type":"string","x-mcp-header":%b}' % name) for name in (
            b'""', b'"a b"', b'"a:b"', b'"a\\n"', b'"\\u00e9"', b'"\\u0000"', b"7", b"null", b'["A"]')),
        *(schema(b'"a":{"type":%b,"x-mcp-header":"A"}' % kind) for kind in (
            b'"number"', b'"object"', b'"array"', b'"null"', b'["string"]', b"7")),
        schema(b'"a":{"x-mcp-header":"A"}'),
        schema(b'"a":{"$ref":"#/$defs/b","x-mcp-header":"A"}'),
        schema(b'"a":%b,"b":%b' % (STRING, STRING.replace(b"Region", b"rEGION"))),
        b'{"type":"object","x-mcp-header":"A"}',
        schema(b'"a":{"type":"array","items":%b}' % STRING),
        schema(b'"a":{"type":"array","items":{"type":"object","properties":{"b":%b}}}' % STRING),
        schema(b'"a":{"type":"array","prefixItems":[%b]}' % STRING),
        *(schema(b"", b',"%b":[%b]' % (word, STRING)) for word in (b"oneOf", b"anyOf", b"allOf")),
        *(schema(b"", b',"%b":{"properties":{"a":%b}}' % (word, STRING)) for word in (
            b"not", b"if", b"then", b"else", b"additionalProperties")),
        *(schema(b"", b',"%b":{"a":%b}' % (word, STRING)) for word in (
            b"$defs", b"definitions", b"patternProperties", b"dependentSchemas")),
    ],
)  # fmt: skip
def test_an_annotation_that_breaks_the_rules_makes_the_tool_invalid(raw: bytes) -> None:
    with pytest.raises(http_headers.InvalidAnnotation):
        http_headers.index(raw)


def test_a_schema_that_is_too_deep_to_be_read_is_invalid_only_if_it_may_be_annotated() -> None:
    deep = b'{"properties":{"a":' * 20_000 + STRING + b"}}" * 20_000
    with pytest.raises(http_headers.InvalidAnnotation, match="cannot be read"):
        http_headers.index(deep)
    assert http_headers.index(deep.replace(b"x-mcp-header", b"y")) == {}


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("a, b\tc", "a, b\tc"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("=?base64?half", "=?base64?half"),
        ("", "=?base64??="),
        ("\x7f", "=?base64?fw==?="),
    ],
)
def test_values_are_encoded_as_the_specification_shows(value: str, header: str) -> None:
    assert http_headers.encode(value) == header


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (b'{"a":"x"}', "x"),
        (rb'{"a":"\u0078"}', "x"),
        (b'{"a":42}', "42"),
        (b'{"a":-7}', "-7"),
        (b'{"a":42.0}', "42"),
        (b'{"a":4.2e1}', "42"),
        (b'{"a":1.5}', "1.5"),
        (b'{"a":1e999999999}', "1e999999999"),
        (b'{"a":1e-999999999}', "1e-999999999"),
        (b'{"a":1e99999999999999999999}', "1e99999999999999999999"),
        (b'{"a":9007199254740993}', "9007199254740993"),
        (b'{"a":true}', "true"),
        (b'{"a":false}', "false"),
        (b'{"a":null}', None),
        (b'{"a":{"b":1}}', None),
        (b'{"a":[1]}', None),
        (b"{}", None),
        (b"[]", None),
        (None, None),
    ],
)
def test_each_kind_of_value_has_its_text_and_what_is_no_value_has_no_header(
    arguments: bytes | None, found: str | None
) -> None:
    index = {("a",): "Mcp-Param-A"}
    expected = {} if found is None else {"Mcp-Param-A": found}
    assert http_headers.values(index, arguments) == expected
    http_headers.check(index, arguments, expected)


def test_a_nested_value_is_read_at_its_exact_path() -> None:
    index = {("a", "b"): "Mcp-Param-B"}
    assert http_headers.values(index, b'{"b":"no","a":{"b":"yes"}}') == {"Mcp-Param-B": "yes"}
    assert http_headers.values(index, b'{"b":"no","a":"b"}') == {}


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", b'{"name":"t","uri":"no"}', "t"),
        ("prompts/get", rb'{"name":"\u00e9"}', "=?base64?w6k=?="),
        ("resources/read", b'{"uri":"file:///a","name":"no"}', "file:///a"),
        ("tools/list", b'{"name":"no"}', None),
        ("vendor/method", None, None),
        ("tools/call", b'{"name":7}', None),
    ],
)
def test_every_request_is_named_in_its_headers(method: str, params: bytes | None, name: str | None) -> None:
    found = http_headers.standard(method, params)
    assert found == {"Mcp-Method": method} | ({} if name is None else {"Mcp-Name": name})
    http_headers.check_standard(method, params, found)


@pytest.mark.parametrize("method", ["", "a\r\nb: c", "é", " a"])
def test_a_method_that_no_header_can_name_does_not_exist(method: str) -> None:
    with pytest.raises(MessageError) as caught:
        http_headers.standard(method, None)
    assert caught.value.rpc_code == versions.METHOD_NOT_FOUND


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "Mcp-Method is missing"),
        ({"mcp-method": "tools/call"}, "Mcp-Name is missing"),
        ({"mcp-name": "t"}, "Mcp-Method is missing"),
        ({"mcp-method": "Tools/call", "mcp-name": "t"}, "Mcp-Method does not name the method"),
        ({"mcp-method": "tools/call", "mcp-name": "T"}, "Mcp-Name is not the name"),
        ({"mcp-method": "tools/call", "mcp-name": ""}, "Mcp-Name is not the name"),
        ({"mcp-method": "tools/call", "mcp-name": "=?base64?dA=?="}, "Mcp-Name is not the Base64"),
    ],
)
def test_headers_that_name_something_else_are_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(MessageError, match=f"^header {why}") as caught:
        http_headers.check_standard("tools/call", b'{"name":"t"}', given)
    assert caught.value.rpc_code == -32020


def test_names_of_headers_have_no_case_and_space_around_values_does_not_count() -> None:
    http_headers.check_standard(
        "tools/call", b'{"name":"t"}', {"MCP-METHOD": " tools/call\t", "mCp-nAmE": "=?base64?dA==?="}
    )
    http_headers.check({("a",): "Mcp-Param-Region"}, b'{"a":"x y"}', {"mcp-param-REGION": "  x y "})


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (b'{"a":42}', "42.0"),
        (b'{"a":42.0}', "42"),
        (b'{"a":4.2e1}', "42.00"),
        (b'{"a":"42"}', "=?base64?NDI=?="),
        (b'{"a":""}', ""),
        (rb'{"a":"\ud800"}', "=?base64?77+9?="),
        (b'{"a":"=?base64?x"}', "=?base64?x"),
    ],
)
def test_a_header_that_means_the_same_is_accepted(arguments: bytes, value: str) -> None:
    http_headers.check({("a",): "Mcp-Param-A"}, arguments, {"mcp-param-a": value})


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (b'{"a":"x"}', None),
        (b'{"a":"x"}', "X"),
        (b'{"a":"x"}', ""),
        (b"{}", "x"),
        (b'{"a":null}', "null"),
        (b'{"a":[1]}', "[1]"),
        (b'{"a":42}', "43"),
        (b'{"a":42}', "0x2a"),
        (b'{"a":42}', "4.2e1"),
        (b'{"a":42}', "+42"),
        (b'{"a":42}', "NaN"),
        (b'{"a":"42"}', "42.0"),
        (b'{"a":true}', "True"),
        (b'{"a":true}', "1"),
        (b'{"a":"t"}', "=?base64?dA?="),
        (b'{"a":"t"}', "=?base64?dB==?="),
        (b'{"a":"t"}', "=?base64?d A==?="),
        (b'{"a":"t"}', "=?BASE64?dA==?="),
        (b'{"a":"t"}', "=?base64?/w==?="),
        (b'{"a":"a\xc3\xa9"}', "a\u00e9"),
        (b'{"a":"a\\nb"}', "a\nb"),
        (b'{"a":9007199254740993}', "9007199254740992"),
    ],
)
def test_a_header_that_is_missing_superfluous_broken_or_different_is_refused(
    arguments: bytes, value: str | None
) -> None:
    with pytest.raises(MessageError, match="Mcp-Param-A") as caught:
        http_headers.check({("a",): "Mcp-Param-A"}, arguments, {} if value is None else {"Mcp-Param-A": value})
    assert caught.value.rpc_code == -32020


def test_a_tool_without_annotations_has_nothing_to_check() -> None:
    http_headers.check({}, b'{"a":1}', {"Mcp-Param-Other": "=?base64?broken?="})


@given(st.text())
def test_every_text_goes_through_a_header_and_comes_out_the_same(text: str) -> None:
    index = {("a",): "Mcp-Param-A"}
    arguments = json.dumps({"a": text})
    found = http_headers.values(index, arguments)
    assert found["Mcp-Param-A"].isascii()
    assert found["Mcp-Param-A"] == text or base64.b64decode(found["Mcp-Param-A"][9:-2]).decode() == text
    http_headers.check(index, arguments, found)
