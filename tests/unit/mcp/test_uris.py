"""Whose a URI is: templates, prefixes, and the URIs in results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.mcp import uris
from hearth.wire import json


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("file:///a", "file:///a"),
        ("greeting://{name}", "greeting://ann"),
        ("greeting://{name}", "greeting://a%20b"),
        ("greeting://{name}", "greeting://a b?x=1"),
        ("db://{schema}/{table}/rows", "db://public/users/rows"),
        ("db://{schema}.{table}", "db://a.b.c"),
        ("geo:{lat},{lon}", "geo:1.5,-2"),
        ("geo:{lat,lon}", "geo:1.5,-2"),
        ("file:///{+path}", "file:///a/b/c.txt"),
        ("file:///{path*}", "file:///a/b/c.txt"),
        ("x://{var:3}", "x://abc"),
        ("doc:{name}{#part}", "doc:a#b/c"),
        ("doc:{name}{#part}", "doc:a"),
        ("file:{.ext}", "file:.tar"),
        ("file:{/path*}", "file:/a/b/c"),
        ("file:{/path*}", "file:"),
        ("file:{/a,b}/end", "file:/x/y/end"),
        ("file:{/a,b}/end", "file:/x/end"),
        ("q://search{?q,limit}", "q://search?q=a/b&limit=1"),
        ("q://search{?q,limit}", "q://search?limit=1"),
        ("q://search{?q,limit}", "q://search"),
        ("q://search?fixed=1{&more*}", "q://search?fixed=1&a=b&c=d"),
        ("q://search?fixed=1{&more*}", "q://search?fixed=1"),
        ("m:a{;x,y}", "m:a;x=1;y=2"),
        ("emoji://{x}/é", "emoji://🙂/é"),
        ("a{x}b{y}c", "abbbcbcc"),
        ("{scheme}://x", "any://x"),
    ],
)
def test_a_template_matches_what_it_expands_to(template: str, uri: str) -> None:
    assert uris.matches(template, uri)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("file:///a", "file:///b"),
        ("greeting://{name}", "greeting://"),
        ("greeting://{name}", "greeting://a/b"),
        ("greeting://{name}", "hello://a"),
        ("greeting://{name}!", "greeting://a"),
        ("db://{schema}/{table}/rows", "db://public/rows"),
        ("file:///{+path}", "file:///"),
        ("file:{/a,b}/end", "file:/x/y/z/end"),
        ("file:{/a}", "file:/x/y"),
        ("file:{.ext}", "file:tar"),
        ("q://search{?q}", "q://search/more"),
        ("q://search{?q}", "q://searching"),
        ("q://search{?q}", "q://search?q=1#f"),
        ("doc:{name}{#part}", "doc:"),
        ("a{x}b{y}c", "abcc"),
        ("a{x}b{y}c", "axbyd"),
        ("", "a:"),
        ("a:{x", "a:b"),
        ("a:x}", "a:x"),
        ("a:{}", "a:b"),
        ("a:{b{c}}", "a:b"),
    ],
)
def test_a_template_matches_nothing_else(template: str, uri: str) -> None:
    assert not uris.matches(template, uri)


def test_what_is_no_template_matches_itself() -> None:
    assert uris.matches("a:{x", "a:{x")
    assert uris.matches("x:" + "y" * 10_000, "x:" + "y" * 10_000)


# Each would take a backtracking matcher longer than the world has existed; the time limit of the tests is the proof.
@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("a{x}" * 2000 + "b", "a" * uris.MATCH_LIMIT_CHARACTERS),
        ("{+x}" * 2000 + "!", "a" * uris.MATCH_LIMIT_CHARACTERS),
        ("{x*}{y*}" * 900 + "!", "a/" * (uris.MATCH_LIMIT_CHARACTERS // 2)),
        ("{/x*}" * 1500 + "!", "/" * uris.MATCH_LIMIT_CHARACTERS),
        ("{/" + ",".join("abcdefgh" * 400) + "}!", "/" * uris.MATCH_LIMIT_CHARACTERS),
        ("{?x}{&y}" * 1000 + "!", "?&" * (uris.MATCH_LIMIT_CHARACTERS // 2)),
        ("{" * uris.MATCH_LIMIT_CHARACTERS, "a" * uris.MATCH_LIMIT_CHARACTERS),
        ("{x}" + "".join(map(chr, range(0x4000, 0x5F00))) + "!", "z" + "".join(map(chr, range(0x4000, 0x5F00)))),
        ("{+x}" + "a" * 1_000_000, "a" * 2_000_000),
    ],
)
def test_no_template_and_no_uri_is_evil_enough_to_take_long(template: str, uri: str) -> None:
    assert not uris.matches(template, uri)


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b/", "://"]), st.text("ab%", min_size=1)), min_size=1))
def test_values_put_into_a_template_are_found_again(pairs: list[tuple[str, str]]) -> None:
    template = "x:" + "".join(literal + "{v}" for literal, _ in pairs)
    assert uris.matches(template, "x:" + "".join(literal + value for literal, value in pairs))


@pytest.mark.parametrize("server", ["git", "My Server", "a:b", "ü/%41", "x{y}", "\ud800"])
@pytest.mark.parametrize(
    "uri", ["file:///a", "urn:x:y", "odd", "hearth:git:file:///a", "x:a\nb", "ui://a/b.html", "ui://git/hearth/a"]
)
def test_a_prefix_can_be_taken_off_again(server: str, uri: str) -> None:
    assert uris.unprefixed(uris.prefixed(server, uri)) == (server, uri)


def test_a_prefixed_page_of_an_app_keeps_its_scheme() -> None:
    assert uris.prefixed("My Server", "ui://app/view.html") == "ui://My%20Server/hearth/app/view.html"
    assert uris.unprefixed("ui://My%20Server/hearth/app/view.html") == ("My Server", "ui://app/view.html")


@pytest.mark.parametrize(
    ("meta", "renamed"),
    [
        (b'{"ui":{"resourceUri":"ui://a","x":[1.0]},"y":1}', b'{"ui":{"resourceUri":"ui://a!","x":[1.0]},"y":1}'),
        (b'{"ui/resourceUri":"ui://a"}', b'{"ui/resourceUri":"ui://a!"}'),
        (
            b'{"ui":{"resourceUri":"ui://a"},"ui/resourceUri":"ui://a"}',
            b'{"ui":{"resourceUri":"ui://a!"},"ui/resourceUri":"ui://a!"}',
        ),
        (b'{"ui":{"visibility":[]}}', None),
        (b'{"ui":3,"resourceUri":"ui://a"}', None),
        (b'{"ui":{"resourceUri":7}}', None),
    ],
)
def test_the_page_of_an_app_is_renamed_in_both_forms(meta: bytes, renamed: bytes | None) -> None:
    assert uris.rewrite_app_page(meta, lambda uri: uri + "!") == (renamed or meta)
    result = uris.rewrite_result(b'{"content":[],"_meta":%b}' % meta, lambda uri: uri + "!")
    assert result == b'{"content":[],"_meta":%b}' % (renamed or meta)


def test_a_prefixed_uri_is_a_uri_and_a_prefixed_template_a_template() -> None:
    assert uris.prefixed("My Server", "file:///a?b#c") == "hearth:My%20Server:file:///a?b#c"
    assert uris.matches(uris.prefixed("x{y}", "file:///{a}"), uris.prefixed("x{y}", "file:///b"))


def test_clients_that_change_the_case_of_the_scheme_are_understood() -> None:
    assert uris.unprefixed("HEARTH:Git:File:///A") == ("Git", "File:///A")


@pytest.mark.parametrize(
    "uri",
    [
        "file:///a",
        "hearth:",
        "hearth:git",
        "hearth:git:",
        "hearth://git/a:b",
        "hearth::a",
        "ui://git/a",
        "ui://git/hearth/",
    ],
)
def test_other_uris_have_no_prefix(uri: str) -> None:
    assert uris.unprefixed(uri) is None


RESULT = (
    b'{"content":[{"type":"text","text":"t","uri":"u:no"},{"type":"resource_link","uri":"u:1","name":"n"},'
    b'{"type":"resource","resource":{"uri":"u:2","text":"x"}},{"type":"resource_link","uri":"u:1"}],"x":1.0}'
)
PROMPT = (
    b'{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"u:2","blob":""}}},{"role":"user"}]}'
)
READ = b'{"contents":[{"uri":"u:1","text":""},{"uri":"u:3","blob":""}]}'


@pytest.mark.parametrize(
    ("result", "found"),
    [
        (RESULT, ["u:1", "u:2"]),
        (PROMPT, ["u:2"]),
        (READ, ["u:1", "u:3"]),
        (rb'{"content":[{"type":"resource_link","u\u0072i":"u:4"}]}', ["u:4"]),
        (rb'{"content":[{"type":"text","text":"{\"uri\":\"u:1\"}"}]}', []),
        (b'{"content":[{"type":"resource_link","uri":7},{"type":"resource","resource":"uri"},"uri",{}]}', []),
        (b'{"content":"uri","structuredContent":{"uri":"u:1"}}', []),
        (b'{"content":7,"messages":{"uri":"u:1"}}', []),
        (b'["uri"]', []),
        (b"{}", []),
    ],
)
def test_the_uris_that_a_result_mentions_are_found_once_each(result: bytes, found: list[str]) -> None:
    assert uris.links(result) == found
    assert uris.links(json.Raw(result)) == found


@pytest.mark.parametrize("result", [RESULT, PROMPT, READ])
def test_a_result_of_which_nothing_is_renamed_is_the_very_same(result: bytes) -> None:
    assert uris.rewrite_result(result, lambda uri: uri) is result


@pytest.mark.parametrize("result", [RESULT, PROMPT, READ])
def test_every_mention_is_renamed_and_nothing_else(result: bytes) -> None:
    found = uris.rewrite_result(result, lambda uri: "new:2" if uri == "u:2" else uri)
    assert json.loads(found) == json.loads(result.replace(b"u:2", b"new:2"))


def test_a_result_that_mentions_no_uri_is_not_looked_at() -> None:
    def rename(uri: str) -> str:
        raise AssertionError(uri)

    for raw in (b'{"content":[{"type":"text","text":"uri"}]}', rb'{"content":[{"text":"{\"uri\":1}"}]}', b"no JSON"):
        assert uris.rewrite_result(raw, rename) is raw
        assert uris.rewrite_links(raw, rename) is raw


def test_a_single_array_is_rewritten_by_itself() -> None:
    found = uris.rewrite_links(json.dumps(json.loads(RESULT)["content"]), lambda uri: uris.prefixed("s", uri))
    assert uris.links(b'{"content":%b}' % bytes(found)) == ["hearth:s:u:1", "hearth:s:u:2"]
    assert json.loads(found)[0]["uri"] == "u:no"


@pytest.mark.parametrize(("era", "code"), [("modern", -32602), ("legacy", -32002)])
def test_a_resource_that_nobody_has_is_named_beside_the_sentence(era: str, code: int) -> None:
    problem = uris.NoSuchResource("note://nowhere", era)
    assert (problem.rpc_code, str(problem)) == (code, "no server has the resource note://nowhere")
    assert problem.data == {"uri": "note://nowhere"}


@pytest.mark.parametrize("uri", ["hearth:%ff:x", "hearth:%C3%28:y", "HEARTH:a%80:z"])
def test_a_prefix_that_is_no_text_is_none(uri: str) -> None:
    assert uris.unprefixed(uri) is None
